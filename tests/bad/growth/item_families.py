"""The families of items: what an object's pickle and archive may hold, and objects that lie in one another."""
import pickle
import struct

from families import DCP, SHOWN, WRITTEN, KIB, dcp, get, items, list_of, put
from recipes import Archive, Item, Op, Record, archive, call, deflate, dump, op, storage

def with_object(c, made, *storages):
    c.item("step").data = archive(dump(made, 2), *storages)


@dcp(*DCP, *WRITTEN, *SHOWN)
def an_object_of_lists(c, n):
    with_object(c, Op(pickle.EMPTY_LIST + pickle.MARK + pickle.EMPTY_LIST * n + pickle.APPENDS))


@dcp(*DCP, *WRITTEN, *SHOWN)
def an_object_of_calls(c, n):
    with_object(c, list_of(call(f"p{i}.C") for i in range(n // 16)))


@dcp(*DCP, *WRITTEN, *SHOWN)
def an_object_with_many_storages(c, n):
    count = n // 250
    with_object(c, list_of(storage(key=str(i), count=1) for i in range(count)), *[b"four"] * count)


@dcp(*SHOWN, "diff ckpt ckpt", first=2 * KIB)
def an_object_of_pairs_of_itself(c, n):
    """Lists of twice the one before: 2 to the power of their number to print."""
    doubled = pickle.POP + pickle.MARK + get(0) + get(0) + pickle.LIST + pickle.BINPUT + b"\0"
    with_object(c, Op(op("x") + pickle.BINPUT + b"\0" + doubled * min(n // 64, 190)))


@dcp(*DCP, *WRITTEN, *SHOWN)
def an_object_that_reads_its_memo(c, n):
    with_object(c, items(pickle.EMPTY_LIST, [put("x" * (n // 2), 0), get(0) * (n // 4)], pickle.APPENDS))


@dcp(*DCP, *WRITTEN)
def an_archive_of_many_records(c, n):
    c.item("step").data = Archive([*archive(dump(17, 2)).records, *(Record(f"x{i}", b"") for i in range(n // 250))])


def packed(n):
    """An object of n bytes in an archive of n / 1000."""
    made = archive(dump(Op(pickle.BINBYTES + struct.pack("<I", n) + bytes(n)), 3))
    deflate(made["data.pkl"])
    return made.bytes()


def with_packed(c, n, length_of):
    """Objects at the place of one that unpacks to 20 times the metadata."""
    data = packed(20 * n)
    count = n // 1000
    c.blobs += [f"k{i}" for i in range(count)]
    c.paths = None
    c.items += [Item(f"k{i}", None, "packed.distcp", b"", fields={"offset": 0, "length": length_of(len(data), i)}) for i in range(count)]
    c.items[-1].data = data + bytes(count)


COMPARED = ("verify ckpt --manifest -", "diff ckpt ckpt")


@dcp(*DCP, *WRITTEN, *COMPARED, first=64 * KIB)
def objects_that_overlap(c, n):
    with_packed(c, n, lambda length, i: length + i)


@dcp(*DCP, *WRITTEN, *COMPARED, first=64 * KIB)
def objects_in_one_place(c, n):
    with_packed(c, n, lambda length, i: length)
