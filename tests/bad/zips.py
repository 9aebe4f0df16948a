"""The archive of one item: end records, directory, local headers."""
import struct
import zlib

from recipes import Record, case, deflate, zstd

COMMANDS = ["consolidate ckpt out.pt"]


def broken(c):
    """The archive that the cases break."""
    return c.item("model.w").data


@case("zip_no_end")
def no_archive_at_all(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': zip_no_end
    """
    c.item("model.w").data = bytes(1000)


@case("zip_no_end")
def an_empty_item(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': zip_no_end
    """
    c.item("model.w").data = b""


@case("zip_no_end")
def an_end_record_cut_short(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': zip_no_end
    """
    c.item("model.w").data = broken(c).bytes()[:-1]


@case("zip_bad_end")
def an_archive_in_several_parts(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': zip_bad_end (got an archive in several parts)
    """
    broken(c).end["disk"] = 1


@case("zip_bad_end")
def a_directory_past_the_end(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': zip_bad_end (got 246 bytes of directory at 1073741824, expected an end at 760)
    """
    broken(c).end["at"] = 1 << 30


@case("zip_bad_end")
def a_directory_longer_than_the_archive(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': zip_bad_end (got 1048576 bytes of directory at 514, expected an end at 760)
    """
    broken(c).end["bytes"] = 1 << 20


@case("zip_bad_end")
def two_counts_of_records(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': zip_bad_end (got 3, expected 4)
    """
    broken(c).end["here"] = 3


@case("zip_bad_end")
def zip64_record_outside_the_slice(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x330: tensor 'model.w': zip_bad_end (got a zip64 end record at 1099511627776)
    """
    broken(c).end64 = {"end64_at": 1 << 40}


@case("zip_bad_end")
def zip64_record_that_is_none(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': zip_bad_end (got no zip64 end record)
    """
    broken(c).end64 = {"mark": b"PK\0\0"}


@case("zip_bad_end")
def zip64_record_that_contradicts_the_end_record(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': zip_bad_end (got 514, expected 64)
    """
    broken(c).end64 = {"at": 64}


@case("zip_bad_end")
def zip64_directory_of_exabytes(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x344: tensor 'model.w': zip_bad_end (got 246 bytes of directory at 18446744073709551600, expected an end at 760)
    """
    broken(c).end.update(at=0xFFFFFFFF)
    broken(c).end64 = {"at": (1 << 64) - 16}


@case("over_limit")
def zip64_directory_bytes_of_exabytes(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x344: tensor 'model.w': over_limit (got 18446744073709551615 bytes of directory, expected at most 268435456)
    """
    broken(c).end.update(bytes=0xFFFFFFFF)
    broken(c).end64 = {"bytes": (1 << 64) - 1}


@case("over_limit")
def zip64_count_of_records(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x344: tensor 'model.w': over_limit (got 1099511627776 records, expected at most 1048576)
    """
    broken(c).end.update(entries=0xFFFF, here=0xFFFF)
    broken(c).end64 = {"entries": 1 << 40, "here": 1 << 40}


@case("zip_bad_directory")
def more_records_than_the_directory_holds(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': zip_bad_directory (got 1000 records in 246 bytes)
    """
    broken(c).end.update(entries=1000, here=1000)


@case("zip_bad_directory")
def fewer_records_than_the_directory_holds(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x202: tensor 'model.w': zip_bad_directory (got 2 records in 125 bytes, expected 246 bytes)
    """
    broken(c).end.update(entries=2, here=2)


@case("zip_bad_directory")
def a_directory_that_begins_in_the_middle_of_an_entry(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x206: tensor 'model.w': zip_bad_directory (got no entry, expected an entry)
    """
    archive = broken(c).bytes()
    at = archive.index(b"PK\1\2")
    broken(c).end.update(at=at + 4, bytes=archive.index(b"PK\5\6") - at - 4)


@case("zip_bad_directory")
def an_extra_field_longer_than_its_entry(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x27f: tensor 'model.w': zip_bad_directory (got a malformed extra field)
    """
    broken(c)["data/0"].size = 0xFFFFFFFF
    broken(c)["data/0"].extra = b"\1\0\xff\xff"


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def an_extra_field_that_says_nothing(c):
    """

    """
    broken(c)["data/0"].extra = b"\1\0\xff\xff"


@case("zip_bad_directory")
def a_zip64_field_that_is_not_there(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x27f: tensor 'model.w': zip_bad_directory (got a malformed extra field)
    """
    broken(c)["data/0"].size = 0xFFFFFFFF


@case("zip_bad_directory")
def two_sizes_of_a_stored_record(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x27f: tensor 'model.w': zip_bad_directory (got 24 bytes stored, expected 4000)
    """
    broken(c)["data/0"].size = 4000


@case("zip_outside")
def a_zip64_size_of_exabytes(c):
    """
    dcpctl: ckpt/__0_0.distcp > version @ 0x198: tensor 'model.w': zip_outside (got 18446744073709551615 bytes, expected an end before 514)
    """
    record = broken(c)["version"]
    record.size = record.packed = 0xFFFFFFFF
    record.extra = b"\1\0\x10\0" + struct.pack("<QQ", (1 << 64) - 1, (1 << 64) - 1)


@case("zip_outside")
def a_record_that_begins_past_the_slice(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x186a0: tensor 'model.w': zip_outside (got 24 bytes, expected an end before 514)
    """
    broken(c)["data/0"].at = 100000


@case("zip_outside")
def the_last_record_reaches_into_the_directory(c):
    """
    dcpctl: ckpt/__0_0.distcp > version @ 0x198: tensor 'model.w': zip_outside (got 100 bytes, expected an end before 514)
    """
    record = broken(c)["version"]
    record.size = record.packed = 100


@case("zip_overlap")
def a_record_reaches_into_the_next(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': zip_overlap (got 200 bytes, expected an end before 408)
    """
    record = broken(c)["data/0"]
    record.size = record.packed = 200


@case("zip_overlap")
def two_records_in_one_place(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x0: tensor 'model.w': zip_overlap (got 151 bytes, expected an end before 0)
    """
    broken(c)["version"].at = 0


@case("zip_overlap")
def a_local_extra_field_into_the_next_record(c):
    """
    dcpctl: ckpt/__0_0.distcp > byteorder @ 0xd7: tensor 'model.w': zip_overlap (got 6 bytes at 517, expected an end before 268)
    """
    broken(c)["byteorder"].local["extra"] = b""
    c.item("model.w").data = broken(c).bytes().replace(b"\0\0archive/byteorder", b"\xff\0archive/byteorder", 1)


@case("zip_bad_local")
def the_local_name_is_another(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': zip_bad_local (got the name archive/data/1, expected archive/data/0)
    """
    broken(c)["data/0"].local["name"] = "archive/data/1"


@case("zip_bad_local")
def the_local_name_has_another_root(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': zip_bad_local (got the name brchive/data/0, expected archive/data/0)
    """
    broken(c)["data/0"].local["name"] = "brchive/data/0"


@case("zip_bad_local")
def the_local_name_is_longer_than_it_says(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': zip_bad_local (got a name of 13 bytes, expected 14)
    """
    whole = bytearray(broken(c).bytes())
    at = whole.index(b"archive/data/0") - 30 + 26
    whole[at : at + 2] = struct.pack("<H", 13)
    c.item("model.w").data = bytes(whole)


@case("zip_bad_local")
def no_local_header_of_the_last_record(c):
    """
    dcpctl: ckpt/__0_0.distcp > version @ 0x198: tensor 'model.w': zip_bad_local (got no local header)
    """
    first, last = broken(c).bytes().rsplit(b"PK\3\4", 1)
    c.item("model.w").data = first + b"PK\0\0" + last


@case("item_not_archive")
def no_local_header_there(c):
    r"""
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': item_not_archive (got text 'PK\x00\x00' at its begin, expected 'PK\x03\x04')
    """
    c.item("model.w").data = broken(c).bytes().replace(b"PK\3\4", b"PK\0\0", 1)


@case("zip_bad_local")
def compressed_by_its_local_header_only(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': zip_bad_local (got method 8)
    """
    broken(c)["data/0"].local["method"] = 8


@case("zip_duplicate")
def two_records_of_one_name(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': zip_duplicate (got data/0)
    """
    broken(c).records.append(Record("data/0", bytes(24)))


@case("zip_encrypted")
def an_encrypted_record(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x27f: tensor 'model.w': zip_encrypted
    """
    broken(c)["data/0"].flags = 1


@case("zip_encrypted")
def encrypted_by_its_local_header_only(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': zip_encrypted
    """
    broken(c)["data/0"].local["flags"] = 1


@case("zip_no_root")
def records_in_no_folder(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x202: tensor 'model.w': zip_no_root (got data.pkl)
    """
    broken(c).root = ""


@case("zip_no_root")
def records_in_two_folders(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2bb: tensor 'model.w': zip_no_root (got ARCHIVE/version, expected archive/...)
    """
    c.item("model.w").data = broken(c).bytes().replace(b"archive/version", b"ARCHIVE/version")


@case("item_compressed")
def a_compressed_record(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': item_compressed (got method 12)
    """
    broken(c)["data/0"].method = 12


@case("item_compressed")
def a_compressed_pickle(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x0: tensor 'model.w': item_compressed (got method 9)
    """
    broken(c)["data.pkl"].method = 9


@case("deflate_broken")
def a_deflated_record_that_is_damaged(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: ckpt/__0_0.distcp @ 0x180: tensor 'model.w': deflate_broken (got invalid block type)
    """
    record = broken(c)["data/0"]
    deflate(record)
    record.data = b"\x07" + record.data[1:]


@case("deflate_broken")
def a_deflated_record_that_ends_early(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: ckpt/__0_0.distcp @ 0x180: tensor 'model.w': deflate_broken (got an end in the middle of it)
    """
    record = broken(c)["data/0"]
    deflate(record)
    record.data = record.data[:-1]


@case("deflate_broken")
def a_deflated_pickle_that_is_longer_than_the_directory_says(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': deflate_broken (got more bytes than the archive's directory says)
    """
    record = broken(c)["data.pkl"]
    deflate(record)
    record.size -= 1


@case("zip_bad_directory")
def a_deflated_record_that_cannot_hold_so_much(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x27f: tensor 'model.w': zip_bad_directory (got 1073741824 bytes packed into 24)
    """
    record = broken(c)["data/0"]
    record.method, record.size = 8, 1 << 30


@case("crc_mismatch")
def a_deflated_record_of_other_bytes(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: ckpt/__0_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 91e79017 over 24 bytes, expected CRC-32 a3c1ca20)
    hint: its own
    """
    record = broken(c)["data/0"]
    record.crc = zlib.crc32(bytes(24))
    deflate(record)


@case("over_limit")
def a_pickle_that_is_a_bomb(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': over_limit (got 16777216 bytes, expected at most 8649568)
    hint: give --max-pickle 17MiB if you trust where the file comes from
    """
    record = broken(c)["data.pkl"]
    record.data = bytes(1 << 24)
    deflate(record)


@case("item_packed_twice", "consolidate ckpt out.pt")
def a_deflated_record_in_a_packed_item(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': item_packed_twice
    hint: its own
    """
    deflate(broken(c)["data/0"])
    c.item("model.w").data = zstd(broken(c).bytes())
    c.item("model.w").fields["transform_descriptors"] = ["stream.zstd/1"]


@case("zip_two_ends")
def an_end_record_in_the_comment_of_another(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x314: tensor 'model.w': zip_two_ends (got end records at 760 and, in its comment, at 788)
    """
    data = broken(c).bytes()
    c.item("model.w").data = data[:-2] + struct.pack("<H", 28) + b"A note" + data[-22:-2] + b"\7\0"


@case("zip_bad_end")
def a_comment_behind_which_torch_does_not_find_the_end_record(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': zip_bad_end (got 4075 bytes behind it, where torch does not find it, expected at most 4074)
    """
    c.item("model.w").data = broken(c).bytes()[:-2] + struct.pack("<H", 4075) + bytes(4075)


@case("zip_bad_end")
def something_between_the_directory_and_its_end(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2fb: tensor 'model.w': zip_bad_end (got 246 bytes of directory at 514, expected an end at 763)
    """
    data = broken(c).bytes()
    c.item("model.w").data = data[:-22] + b"gap" + data[-22:]


@case("zip_duplicate")
def two_records_that_differ_in_case(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': zip_duplicate (got data/0 and DATA/0)
    hint: torch finds records without regard to case
    """
    broken(c).records.append(Record("DATA/0", bytes(24)))


@case("zip_name_case")
def a_byte_order_that_torch_alone_would_find(c):
    """
    dcpctl: ckpt/__0_0.distcp > ByteOrder @ 0xd7: tensor 'model.w': zip_name_case (got ByteOrder, expected byteorder)
    """
    record = broken(c)["byteorder"]
    record.name, record.data = "ByteOrder", b"big"


@case("zip_bad_directory")
def a_name_with_a_nul_byte(c):
    r"""
    dcpctl: ckpt/__0_0.distcp > data/0\x00x @ 0x27f: tensor 'model.w': zip_bad_directory (got a name with a NUL byte)
    """
    broken(c)["data/0"].name = "data/0\0x"


@case("item_version")
def a_version_that_torch_reads_first(c):
    """
    dcpctl: ckpt/__0_0.distcp > .data/version @ 0x202: tensor 'model.w': item_version (got 99, expected 1 to 10)
    """
    broken(c).records.append(Record(".data/version", b"99"))
