"""Names that would move the cursor, paint or turn the text of a terminal around, wherever a name can come from."""
import json
import struct

from recipes import Item, Op, Record, Tensor, archive, call, case, dump, op, rebuild, storage, tensor_item

PAINT = "\x1b[31m\x1b]0;owned\x07\u202e\r\n\x9b2J"
BOTH = ["inspect ckpt", "consolidate ckpt out.pt"]
COMMANDS = ["consolidate ckpt out.pt"]


@case("chunk_without_item")
def of_an_object(c):
    r"""
    dcpctl: ckpt: object '\x1b[31m\x1b]0;owned\x07\u{202e}\x0d\x0a\u{009b}2J': chunk_without_item
    hint: its own
    """
    c.blobs.append(PAINT)


@case("zip_duplicate")
def of_a_record(c):
    r"""
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': zip_duplicate (got \x1b[31m\x1b]0;owned\x07\u{202e}\x0d\x0a\u{009b}2J)
    """
    c.item("model.w").data.records.append(Record(PAINT, b"x"))
    c.item("model.w").data.records.append(Record(PAINT, b"y"))


@case("item_no_record")
def of_a_storage(c):
    r"""
    dcpctl: ckpt/__0_0.distcp > data/\x1b[31m\x1b]0;owned\x07\u{202e}\x0d\x0a\u{009b}2J @ 0x0: tensor 'model.w': item_no_record
    """
    c.item("model.w").data = tensor_item(range(6), (2, 3), stored=storage(key=PAINT, count=6))


@case("item_unknown_dtype")
def of_a_class_in_an_item(c):
    r"""
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_unknown_dtype (got torch.\x1b[31m\x1b]0;owned\x07\u{202e}\x0d\u{009b}2J)
    """
    c.item("model.w").data = archive(dump(rebuild(storage("torch." + PAINT.replace("\n", ""), count=6), (2, 3)), 2), bytes(24))


@case("metadata_not_dcp", *BOTH)
def of_a_function_in_place_of_the_metadata(c):
    r"""
    dcpctl: ckpt/.metadata @ 0x16: metadata_not_dcp (got os.\x1b[2J\u{202e}, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.root = call("os.\x1b[2J\u202e", 1)


@case("metadata_field", *BOTH)
def of_a_dtype(c):
    r"""
    dcpctl: ckpt/.metadata @ 0x170: tensor 'model.w': metadata_field (got TensorProperties.dtype: numpy.\x1b[2J, expected a dtype of torch)
    """
    c.tensors["model.w"].dtype = "numpy.\x1b[2J"


@case("dtype_unknown")
def of_a_dtype_of_torchs(c):
    r"""
    dcpctl: ckpt: tensor 'model.w': dtype_unknown (got \x1b[2J\u{202e})
    hint: its own
    """
    c.tensors["model.w"].dtype = "torch.\x1b[2J\u202e"


@case("transform_unknown")
def of_a_transform(c):
    r"""
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': transform_unknown (got \x1b[31m\x1b]0;owned\x07\u{202e}\x0d\x0a\u{009b}2J, expected stream.zstd/1)
    hint: its own
    """
    c.item("model.w").fields["transform_descriptors"] = [PAINT]


@case("item_byteorder")
def of_a_byte_order(c):
    """
    dcpctl: ckpt/__0_0.distcp > byteorder @ 0x140: tensor 'model.w': item_byteorder (got 24 bytes)
    """
    c.item("model.w").data["byteorder"].data = PAINT.encode()


@case("item_without_chunk", "inspect ckpt", exit=0, says="findings")
def of_an_item_that_belongs_to_nothing(c):
    r"""
    warning: ckpt/__1_0.distcp @ 0x30e: tensor '\x1b[31m\x1b]0;owned\x07\u{202e}\x0d\x0a\u{009b}2J': item_without_chunk
    """
    c.items.append(Item(PAINT, (0,), "__1_0.distcp", tensor_item([1], (1,))))


@case("orphan_file", "inspect ckpt", exit=0, says="findings")
def of_a_file_in_the_folder(c):
    r"""
    warning: ckpt/__7_0\x1b[2J\u{202e}.distcp: orphan_file (got rank 7, and the metadata names files of ranks up to 1)
    """
    c.write()
    (c.folder / "__7_0\x1b[2J\u202e.distcp").write_bytes(b"x")


@case("torch_no_state_dict", "inspect m.pt", "consolidate m.pt out.pt")
def of_a_class_that_makes_the_state_dict(c):
    r"""
    dcpctl: m.pt > data.pkl @ 0x40: torch_no_state_dict (got an object of nets.\x1b[2J\u{202e}, expected a dict of tensors)
    hint: save what is in it: torch.save(torch.load(FILE, weights_only=False).state_dict(), NEW)
    """
    c.written = True
    (c.folder.parent / "m.pt").write_bytes(archive(dump(call("nets.\x1b[2J\u202e", 1), 2)).bytes())


@case("item_short_storage", "inspect m.pt", "consolidate m.pt out.pt")
def of_a_key_of_a_state_dict(c):
    r"""
    dcpctl: m.pt > data/0 @ 0x180: tensor '\x1b[31m\x1b]0;owned\x07\u{202e}\x0d\x0a\u{009b}2J': item_short_storage (got 4 bytes, expected 8)
    """
    c.written = True
    (c.folder.parent / "m.pt").write_bytes(archive(dump({PAINT: rebuild(storage(count=2), (2,))}, 2), bytes(4)).bytes())


@case("safetensors_bad_range", "consolidate m.safetensors out.pt")
def of_a_tensor_in_safetensors(c):
    r"""
    dcpctl: m.safetensors: tensor '\x1b[31m\x1b]0;owned\x07\u{202e}\x0d\x0a\u{009b}2J': safetensors_bad_range (got data_offsets [0, 8], expected 12 bytes)
    hint: kFewerKeys
    """
    c.written = True
    text = json.dumps({PAINT: {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}).encode()
    (c.folder.parent / "m.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))


@case("safetensors_unknown_dtype", "consolidate m.safetensors out.pt")
def of_a_dtype_in_safetensors(c):
    r"""
    dcpctl: m.safetensors: tensor 'w': safetensors_unknown_dtype (got \x1b[31m\x1b]0;owned\x07\u{202e}\x0d\x0a\u{009b}2J)
    hint: kFewerKeys
    """
    c.written = True
    text = json.dumps({"w": {"dtype": PAINT, "shape": [2], "data_offsets": [0, 8]}}).encode()
    (c.folder.parent / "m.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))


@case("file_missing", "inspect ckpt", exit=1, says="findings")
def of_a_file_in_an_index(c):
    r"""
    damage: ckpt/\x1b[31m\x1b]0;owned\x07\u{202e}\x0d\x0a\u{009b}2J: file_missing (got 2 tensors of the index)
    """
    c.written = True
    c.folder.mkdir()
    (c.folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": PAINT, PAINT: PAINT}}))


@case("metadata_not_dcp", *BOTH)
def of_a_persistent_id(c):
    r"""
    dcpctl: ckpt/.metadata @ 0x1f: metadata_not_dcp (got a persistent id: text '\x1b[31m\x1b]0;owned\x07\u{202e}\x0d\x0a\u{009b}2J', expected a pickle without them)
    """
    c.metadata = dump(Op(op(PAINT) + b"Q"))


@case("metadata_field")
def of_a_chunk_that_is_none(c):
    r"""
    dcpctl: ckpt/.metadata @ 0x1c4: tensor 'model.w': metadata_field (got TensorStorageMetadata.chunks: text '\x1b[31m\x1b]0;owned\x07\u{202e}\x0d\x0a\u{009b}2J', expected ChunkStorageMetadata)
    """
    c.tensors["model.w"] = Tensor((4, 3), [], fields={"chunks": [op(PAINT)]})
