"""What `verify` finds: everything in one run, sorted, whatever else is wrong."""
import os

from recipes import Tensor, archive, case, dump, rebuild, small, storage, struct, tensor_item

COMMANDS = ["verify ckpt", "verify ckpt -j1", "verify ckpt -j7"]
QUICK = [*COMMANDS, "verify ckpt --quick"]
FINDINGS = dict(says="findings", exit=1)
ODD = dict(says="findings", exit=0)


def flip(c, name, at, bit=0):
    """One bit of a file; a negative position counts from its end."""
    if not c.written:
        c.write()
    path = c.folder / name
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def find(c, name, what, nth=0):
    """Where `what` is for the nth time in a file."""
    if not c.written:
        c.write()
    data, at = (c.folder / name).read_bytes(), -1
    for _ in range(nth + 1):
        at = data.index(what, at + 1)
    return at


# ---- kinds of files


def alone(c, name, data):
    """A file that is a checkpoint, among leftovers that are none of its business."""
    c.written = True
    folder = c.folder.parent
    (folder / name).write_bytes(data)
    for other in (".metadata.tmp", "__7_0.distcp", ".other.pt.dcpctl-partial"):
        (folder / other).write_bytes(b"")


@case(None, "verify m.pt --strict", exit=0, says="findings")
def two_tensors_in_one_storage_of_a_torch_file(c):
    """
    """
    stored = storage(count=4)
    state = {"whole": rebuild(stored, (4,)), "half": rebuild(stored, (2,), offset=2)}
    alone(c, "m.pt", archive(dump(state, 2), struct.pack("<4f", 1, 2, 3, 4)).bytes())


@case("crc_mismatch", "verify m.pt", **FINDINGS)
def a_bit_in_a_storage_of_a_torch_file(c):
    """
    damage: m.pt @ 0x180: tensor 'w': crc_mismatch (got CRC-32 e295a5e8 over 8 bytes, expected CRC-32 2e3fa576)
    """
    data = bytearray(archive(dump({"w": rebuild(storage(count=2), (2,))}, 2), struct.pack("<2f", 1, 2)).bytes())
    data[data.index(struct.pack("<2f", 1, 2))] ^= 1
    alone(c, "m.pt", bytes(data))


@case("crc_absent", "verify m.safetensors", "verify m.safetensors --strict", says="findings", exit=0)
def a_file_that_has_no_place_for_crcs(c):
    """
    note: m.safetensors: crc_absent (1 record)
    """
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  '
    alone(c, "m.safetensors", struct.pack("<Q", len(header)) + header + bytes(8))


# ---- records


@case("crc_mismatch", *COMMANDS, **FINDINGS)
def a_bit_of_a_storage(c):
    """
    damage: ckpt/__1_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 91fc7802 over 24 bytes, expected CRC-32 f49b4344)
    """
    flip(c, "__1_0.distcp", 0x184)


@case("crc_mismatch", *QUICK, **FINDINGS)
def a_bit_of_a_pickle(c):
    """
    damage: ckpt/__0_0.distcp @ 0x40: tensor 'model.w': crc_mismatch (got CRC-32 b13ead78 over 151 bytes, expected CRC-32 cc5bd768)
    """
    flip(c, "__0_0.distcp", find(c, "__0_0.distcp", b"_rebuild_tensor_v2") + 3)


@case("crc_mismatch", *QUICK, **FINDINGS)
def a_bit_of_an_objects_pickle(c):
    """
    damage: ckpt/__0_0.distcp @ 0x5dc: object 'step': crc_mismatch (got CRC-32 b373f8dd over 8 bytes, expected CRC-32 8e13d16d)
    """
    flip(c, "__0_0.distcp", find(c, "__0_0.distcp", dump(17, 2)) + 3)


@case("crc_mismatch", *QUICK, **FINDINGS)
def a_bit_of_a_version(c):
    """
    damage: ckpt/__0_0.distcp > version @ 0x200: tensor 'model.w': crc_mismatch (got CRC-32 310b5bd5 over 2 bytes, expected CRC-32 55679ed1)
    """
    flip(c, "__0_0.distcp", find(c, "__0_0.distcp", b"3\n"), 2)


@case("crc_mismatch", *QUICK, **FINDINGS)
def a_bit_of_a_byte_order(c):
    """
    damage: ckpt/__0_0.distcp > byteorder @ 0x140: tensor 'model.w': crc_mismatch (got CRC-32 24831435 over 6 bytes, expected CRC-32 19e33d85)
    """
    flip(c, "__0_0.distcp", find(c, "__0_0.distcp", b"little") + 1)


@case("crc_mismatch", *COMMANDS, **FINDINGS)
def a_crc_that_is_wrong_in_the_directory(c):
    """
    damage: ckpt/__0_0.distcp @ 0x44e: tensor 'model.b': crc_mismatch (got CRC-32 2a4eeda4 over 8 bytes, expected CRC-32 00000007)
    """
    c.item("model.b").data["data/0"].crc = 7


@case("crc_mismatch", *COMMANDS, **FINDINGS)
def all_that_is_damaged_is_named(c):
    """
    damage: ckpt/__0_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 f480ab51 over 24 bytes, expected CRC-32 91e79017)
    damage: ckpt/__0_0.distcp @ 0x5dc: object 'step': crc_mismatch (got CRC-32 b373f8dd over 8 bytes, expected CRC-32 8e13d16d)
    damage: ckpt/__1_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 91fc7802 over 24 bytes, expected CRC-32 f49b4344)
    """
    flip(c, "__0_0.distcp", 0x184)
    flip(c, "__1_0.distcp", 0x184)
    flip(c, "__0_0.distcp", find(c, "__0_0.distcp", dump(17, 2)) + 3)


@case("crc_absent", *COMMANDS, **ODD)
def records_without_a_crc(c):
    """
    warning: ckpt: crc_absent (15 records)
    """
    for item in c.items:
        for record in item.data.records:
            record.crc = 0


@case("crc_absent", "verify ckpt --strict", **FINDINGS)
def a_warning_is_a_no_with_strict(c):
    """
    warning: ckpt: crc_absent (1 record)
    """
    c.item("step").data["version"].crc = 0


@case(None, "verify ckpt --strict", **ODD)
def a_crc_that_is_zero_in_earnest(c):
    """"""
    c.item("model.b").data["data/0"].data = bytes.fromhex("502f1b1000000000")
    assert c.item("model.b").data["data/0"].true_crc() == 0


# ---- archives


@case("zip_no_end", *QUICK, **FINDINGS)
def the_end_of_an_archive_is_damaged(c):
    """
    damage: ckpt/__1_0.distcp @ 0x0: tensor 'model.w': zip_no_end
    """
    flip(c, "__1_0.distcp", -20)


@case("zip_bad_local", *QUICK, **FINDINGS)
def a_header_of_a_record_is_damaged(c):
    """
    damage: ckpt/__1_0.distcp > data/0 @ 0x146: tensor 'model.w': zip_bad_local: no local header
    """
    flip(c, "__1_0.distcp", find(c, "__1_0.distcp", b"PK\3\4", 2))


@case("item_trailing", *QUICK, **ODD)
def bytes_follow_the_archive(c):
    """
    warning: ckpt/__1_0.distcp @ 0x0: tensor 'model.w': item_trailing: 4 bytes after its end record
    """
    data = c.item("model.w", 1).data.bytes() + b"more"
    c.item("model.w", 1).data = data


@case("chunk_shape_differs", *QUICK, **FINDINGS)
def an_item_of_another_shape(c):
    """
    damage: ckpt/__0_0.distcp @ 0x30e: tensor 'model.b': chunk_shape_differs (got [0:3], expected [0:2])
    """
    c.item("model.b").data = tensor_item([1, 2, 3], (3,))


@case("dtype_differs", *QUICK, **ODD)
def an_item_of_another_dtype(c):
    """
    warning: ckpt/__0_0.distcp @ 0x30e: tensor 'model.b': dtype_differs (got float64, expected float32)
    """
    c.item("model.b").data = archive(dump(rebuild(storage("torch.DoubleStorage", count=2), (2,)), 2), bytes(16))


@case("dtype_not_convertible", *QUICK, **FINDINGS)
def an_item_of_a_dtype_that_cannot_be_converted(c):
    """
    damage: ckpt/__0_0.distcp @ 0x30e: tensor 'model.b': dtype_not_convertible (got float32, expected float4_e2m1fn_x2)
    """
    c.tensors["model.b"] = Tensor((2,), [((0,), (2,))], dtype="torch.float4_e2m1fn_x2")


@case("item_outside_storage", *QUICK, **FINDINGS)
def strides_that_leave_the_storage(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x34e: tensor 'model.b': item_outside_storage (got element 2, expected less than 2)
    """
    c.item("model.b").data = tensor_item([1, 2], (2,), strides=(2,))


@case("blob_not_archive", *QUICK, **FINDINGS)
def an_object_that_is_no_archive(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive
    """
    c.item("step").data = b"no archive at all"


# ---- places


@case("items_overlap", *QUICK, **FINDINGS)
def two_items_in_one_place(c):
    """
    damage: ckpt/__0_0.distcp @ 0x0: tensor 'model.b': items_overlap: bytes 0 to 782, and 'model.w' has bytes 0 to 782
    """
    c.item("model.b").data = tensor_item([7, 8, 9], (3,))
    length = len(c.item("model.w").data.bytes())
    c.item("model.b").fields = {"offset": 0, "length": length}
    c.tensors["model.b"] = Tensor((2, 3), [((0, 0), (2, 3))])
    c.item("model.b").offsets = (0, 0)


@case("items_overlap", *QUICK, **FINDINGS)
def an_item_that_begins_inside_another(c):
    """
    damage: ckpt/__0_0.distcp @ 0x2e6: tensor 'model.b': items_overlap: bytes 742 to 1396, and 'model.w' has bytes 0 to 782
    damage: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.b': zip_bad_end (got 246 bytes of directory at 514, expected an end at 18)
    """
    length = len(c.item("model.w").data.bytes())
    c.item("model.b").fields = {"offset": length - 40}


@case("file_missing", *QUICK, **FINDINGS)
def a_data_file_is_missing(c):
    """
    damage: ckpt/__1_0.distcp: file_missing
    """
    c.write()
    (c.folder / "__1_0.distcp").unlink()


@case("item_past_end", *QUICK, **FINDINGS)
def a_data_file_is_short(c):
    """
    damage: ckpt/__0_0.distcp: item_past_end (got a file of 1837 bytes, expected at least 1838)
    """
    c.write()
    path = c.folder / "__0_0.distcp"
    os.truncate(path, path.stat().st_size - 1)


@case("tensor_hole", *QUICK, **FINDINGS)
def a_hole(c):
    """
    damage: ckpt: tensor 'model.w': chunk_without_item: chunk [3:4, 0:3]
    damage: ckpt: tensor 'model.w': tensor_hole: [2:3, 0:3] in no chunk
    warning: ckpt/__1_0.distcp @ 0x0: tensor 'model.w': item_without_chunk
    """
    c.tensors["model.w"].chunks = [((0, 0), (2, 3)), ((3, 0), (1, 3))]


# ---- the folder


@case("orphan_file", *QUICK, **ODD)
def files_of_a_larger_world(c):
    """
    warning: ckpt/__0_7.distcp: orphan_file
    warning: ckpt/__2_0.distcp: orphan_file: rank 2, and the metadata names files of ranks up to 1
    """
    c.write()
    (c.folder / "__2_0.distcp").write_bytes(b"of an earlier save")
    (c.folder / "__0_7.distcp").write_bytes(b"of an earlier save")


@case("unfinished_save", *QUICK, **ODD)
def a_save_that_did_not_finish(c):
    """
    warning: ckpt/.metadata.tmp: unfinished_save
    """
    c.write()
    (c.folder / ".metadata.tmp").write_bytes(b"")


@case("unfinished_output", *QUICK, **ODD)
def outputs_that_were_not_finished(c):
    """
    warning: .ckpt.dcpctl-old: unfinished_output
    warning: ckpt/.model.pt.dcpctl-partial: unfinished_output
    """
    c.write()
    (c.folder / ".model.pt.dcpctl-partial").write_bytes(b"")
    (c.folder.parent / ".ckpt.dcpctl-old").mkdir()


@case("metadata_older", *QUICK, **ODD)
def metadata_older_than_the_data(c):
    """
    note: ckpt/__1_0.distcp: metadata_older: 3600 seconds between them
    """
    c.write()
    os.utime(c.folder / ".metadata", (1e9, 1e9))
    os.utime(c.folder / "__0_0.distcp", (1e9 + 59, 1e9 + 59))
    os.utime(c.folder / "__1_0.distcp", (1e9 + 3600, 1e9 + 3600))


@case("rank_missing", *QUICK, **FINDINGS)
def the_metadata_of_a_rank_is_missing(c):
    """
    damage: ckpt: tensor 'model.w': tensor_hole: [2:4, 0:3] in no chunk
    warning: ckpt: rank_missing: no __0.metadata beside __1.metadata
    warning: ckpt/__1_0.distcp: orphan_file: rank 1, and the metadata names files of ranks up to 0
    """
    other = small(c.folder)
    other.tensors["model.w"].chunks.pop()
    other.items.pop()
    c.metadata = other.pickle()
    c.write()
    (c.folder / ".metadata").rename(c.folder / "__1.metadata")


@case("duplicates_differ", *QUICK, **ODD)
def two_ranks_wrote_two_values(c):
    """
    warning: ckpt/__1_0.distcp @ 0x30e: object 'step': duplicates_differ: a value different from that in ckpt/__0_0.distcp
    """
    c.items += [item for item in small(c.folder).items if item.key == "step"]
    c.items[-1].file = "__1_0.distcp"
    c.items[-1].data = archive(dump(18, 2))
    c.write()
    (c.folder / ".metadata").unlink()
    for rank, keep in ((0, "__0_0.distcp"), (1, "__1_0.distcp")):
        part = small(c.folder)
        part.items = c.items
        part.fields = {"storage_data": type(c.files()[1])(e for e, i in zip(c.files()[1], c.items) if i.file == keep)}
        part.tensors = dict(part.tensors)
        if rank == 0:
            part.tensors["model.w"] = Tensor((4, 3), [((0, 0), (2, 3))])
        else:
            part.tensors = {"model.w": Tensor((4, 3), [((2, 0), (2, 3))])}
            part.paths = {"model.w": ("model", "w"), "step": ("step",)}
        (c.folder / f"__{rank}.metadata").write_bytes(part.pickle())


# ---- what cannot be verified


@case("not_checkpoint", "verify ckpt", exit=3)
def no_metadata(c):
    """
    dcpctl: ckpt: unfinished: .distcp files but no .metadata
    hint: the save did not finish: 'dcpctl list . --latest' prints the newest step that did
    """
    c.write()
    (c.folder / ".metadata").unlink()


@case("not_checkpoint", "verify ckpt", exit=3)
def the_files_of_a_second_node(c):
    """
    dcpctl: ckpt: not_checkpoint (got .distcp files but no .metadata, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    hint: this may be one node's part: bring the files of all nodes together, or start the command on every node; names, shapes and places were in .metadata; a copy of that of another step fits if the same ranks saved the same model
    """
    c.write()
    (c.folder / ".metadata").unlink()
    (c.folder / "__0_0.distcp").rename(c.folder / "__8_0.distcp")


@case("pickle_no_stop", "verify ckpt", exit=3)
def metadata_that_is_cut(c):
    """
    dcpctl: ckpt/.metadata @ 0x953: pickle_no_stop
    hint: its own
    """
    c.metadata = c.pickle()[:-1]


@case("memory_cap", "verify ckpt --max-memory 1MiB", exit=4)
def no_memory(c):
    """
    dcpctl: ckpt: memory_cap (got 1.0 MiB, expected N MiB or more)
    hint: give --max-memory NMiB
    """
    pass


@case("usage", "verify ckpt --sample 0%", exit=2)
def a_sample_of_nothing(c):
    """
    dcpctl: got --sample '0%', expected a percentage above 0, such as 5%
    """
    pass
