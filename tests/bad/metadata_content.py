"""`.metadata` as objects: fields, numbers, keys, boxes. The pickle itself is well formed."""
import pickle

from recipes import METADATA, Op, Pairs, Size, Tensor, call, case, glob, new, op, properties

COMMANDS = ["inspect ckpt", "consolidate ckpt out.pt"]


@case("metadata_field")
def no_state_dict_metadata(c):
    """
    dcpctl: ckpt/.metadata @ 0x4be: metadata_field (got Metadata.state_dict_metadata: None, expected a dict)
    """
    c.fields["state_dict_metadata"] = None


@case("metadata_field")
def no_storage_data(c):
    """
    dcpctl: ckpt/.metadata @ 0x582: metadata_field (got Metadata.storage_data: None, expected a dict)
    """
    c.fields["storage_data"] = None


@case("metadata_field")
def a_key_that_is_no_text(c):
    """
    dcpctl: ckpt/.metadata @ 0xa9e: metadata_field (got a key of Metadata.state_dict_metadata: 7, expected text)
    """
    c.tensors[op(7)] = Tensor((1,), [])


@case("metadata_field")
def a_key_with_a_dict_for_its_tensor(c):
    """
    dcpctl: ckpt/.metadata @ 0x4cf: tensor 'model.w': metadata_field (got Metadata.state_dict_metadata: dict, expected TensorStorageMetadata or BytesStorageMetadata)
    """
    c.fields["state_dict_metadata"] = {"model.w": {}}


@case("metadata_field")
def chunks_that_are_no_list(c):
    """
    dcpctl: ckpt/.metadata @ 0x1ac: tensor 'model.w': metadata_field (got TensorStorageMetadata.chunks: text 'all', expected a list)
    """
    c.tensors["model.w"].fields["chunks"] = "all"


@case("metadata_field")
def a_chunk_that_is_a_tuple(c):
    """
    dcpctl: ckpt/.metadata @ 0x1c1: tensor 'model.w': metadata_field (got TensorStorageMetadata.chunks: tuple, expected ChunkStorageMetadata)
    """
    c.tensors["model.w"].chunks = [op(((0, 0), (4, 3)))]


@case("metadata_field")
def a_dtype_from_another_library(c):
    """
    dcpctl: ckpt/.metadata @ 0x173: tensor 'model.w': metadata_field (got TensorProperties.dtype: numpy.float32, expected a dtype of torch)
    """
    c.tensors["model.w"].dtype = "numpy.float32"


@case("metadata_field")
def properties_of_os_system(c):
    """
    dcpctl: ckpt/.metadata @ 0x21c: tensor 'model.w': metadata_field (got TensorStorageMetadata.properties: os.system, expected TensorProperties)
    """
    c.tensors["model.w"].fields["properties"] = call("os.system", "touch executed")


@case("metadata_field")
def a_file_name_that_is_a_number(c):
    """
    dcpctl: ckpt/.metadata @ 0x64c: tensor 'model.w': metadata_field (got _StorageInfo.relative_path: 7, expected text)
    """
    c.item("model.w").fields["relative_path"] = 7


@case("metadata_field")
def a_transform_that_is_a_number(c):
    """
    dcpctl: ckpt/.metadata @ 0x67a: tensor 'model.w': metadata_field (got _StorageInfo.transform_descriptors: 1, expected text)
    """
    c.item("model.w").fields["transform_descriptors"] = [1]


@case("metadata_number")
def a_negative_size(c):
    """
    dcpctl: ckpt/.metadata @ 0x2c3: tensor 'model.w': metadata_number (got TensorStorageMetadata.size with -3, expected 0 or more)
    """
    c.tensors["model.w"].size = (4, -3)


@case("metadata_number")
def a_size_that_is_text(c):
    """
    dcpctl: ckpt/.metadata @ 0x198: tensor 'model.w': metadata_number (got torch.Size with text '4', expected integers)
    """
    c.tensors["model.w"].size = ("4", 3)


@case("metadata_number")
def a_size_of_100_bits(c):
    """
    dcpctl: ckpt/.metadata @ 0x1a1: tensor 'model.w': metadata_number (got torch.Size with an integer of 13 bytes, expected integers)
    """
    c.tensors["model.w"].size = (1 << 100, 3)


@case("metadata_number")
def a_negative_chunk_offset(c):
    """
    dcpctl: ckpt/.metadata @ 0x232: tensor 'model.w': metadata_number (got ChunkStorageMetadata.offsets with -1, expected 0 or more)
    """
    c.tensors["model.w"].chunks[0] = ((-1, 0), (3, 3))


@case("metadata_number")
def a_negative_item_offset(c):
    """
    dcpctl: ckpt/.metadata @ 0x658: tensor 'model.w': metadata_number (got _StorageInfo.offset -1, expected an integer, 0 or more)
    """
    c.item("model.w").fields["offset"] = -1


@case("metadata_number")
def an_item_length_that_is_a_float(c):
    """
    dcpctl: ckpt/.metadata @ 0x65c: tensor 'model.w': metadata_number (got _StorageInfo.length a float, expected an integer, 0 or more)
    """
    c.item("model.w").fields["length"] = Op(pickle.BINFLOAT + bytes(8))


@case("metadata_rank")
def a_chunk_of_another_rank(c):
    """
    dcpctl: ckpt/.metadata @ 0x2b9: tensor 'model.w': metadata_rank (got chunk 1 of 1 dimensions, expected 2)
    """
    c.tensors["model.w"].chunks[1] = ((2,), (2,))


@case("metadata_rank")
def a_chunk_with_more_sizes_than_offsets(c):
    """
    dcpctl: ckpt/.metadata @ 0x2c5: tensor 'model.w': metadata_rank (got 3 sizes, expected 2 as offsets)
    """
    c.tensors["model.w"].chunks[1] = ((2, 0), (2, 3, 1))


@case("over_limit")
def a_tensor_of_65_dims(c):
    """
    dcpctl: ckpt/.metadata @ 0x2d2: tensor 'model.w': over_limit (got torch.Size of more numbers, expected at most 64)
    """
    c.tensors["model.w"].size = (1,) * 65


@case("over_limit")
def a_hundred_transforms(c):
    """
    dcpctl: ckpt/.metadata @ 0xd7d: tensor 'model.w': over_limit (got more transforms of an item, expected at most 16)
    """
    c.item("model.w").fields["transform_descriptors"] = ["stream.zstd/1"] * 100


@case("number_overflow")
def sizes_whose_product_overflows(c):
    """
    dcpctl: ckpt: tensor 'model.w': number_overflow: 4 * 4611686018427387904
    """
    c.tensors["model.w"] = Tensor((1 << 62, 1 << 62), [])


@case("number_overflow")
def bytes_that_overflow(c):
    """
    dcpctl: ckpt: tensor 'model.w': number_overflow: 4 * 9223372036854775807
    """
    c.tensors["model.w"] = Tensor(((1 << 63) - 1, 3), [])


@case("metadata_key_twice")
def a_key_twice(c):
    """
    dcpctl: ckpt: tensor 'model.b': metadata_key_twice
    """
    tensor = c.tensors["model.b"].op()
    c.fields["state_dict_metadata"] = Pairs([("model.b", tensor), ("model.b", tensor)])


@case("metadata_key_twice")
def a_key_that_is_tensor_and_object(c):
    """
    dcpctl: ckpt: tensor 'model.b': metadata_key_twice
    """
    blob = Op(glob(METADATA + "BytesStorageMetadata") + pickle.EMPTY_TUPLE + pickle.NEWOBJ)
    c.fields["state_dict_metadata"] = Pairs([("model.b", c.tensors["model.b"].op()), ("model.b", blob)])


@case("chunk_outside", "consolidate ckpt out.pt")
def a_chunk_past_its_tensor(c):
    """
    dcpctl: ckpt: tensor 'model.w': chunk_outside (got dim 0: 3 + 2, expected at most 4)
    """
    c.tensors["model.w"].chunks[1] = ((3, 0), (2, 3))


@case("number_overflow")
def a_chunk_whose_end_overflows(c):
    """
    dcpctl: ckpt: tensor 'model.w': number_overflow: dim 0: 9223372036854775807 + 2
    """
    c.tensors["model.w"].chunks[1] = (((1 << 63) - 1, 0), (2, 3))


@case("chunk_outside", "inspect ckpt", exit=1, says="findings")
def a_chunk_past_its_tensor_in_a_finding(c):
    """
    damage: ckpt: tensor 'model.w': chunk_outside (got dim 0: 3 + 2, expected at most 4)
    damage: ckpt: tensor 'model.w': chunk_without_item: chunk [3:5, 0:3]
    warning: ckpt/__1_0.distcp @ 0x0: tensor 'model.w': item_without_chunk
    """
    a_chunk_past_its_tensor(c)


@case(None, "inspect ckpt", exit=0, says="findings")
def an_empty_chunk_past_its_tensor(c):
    """
    """
    c.tensors["model.w"].chunks.append(((9, 0), (0, 3)))


@case("number_overflow")
def a_chunk_whose_volume_overflows(c):
    """
    dcpctl: ckpt: tensor 'model.w': number_overflow: 4611686018427387904 * 4611686018427387904
    """
    c.tensors["model.w"].chunks[1] = ((2, 0), (1 << 62, 1 << 62))


@case("item_twice", "inspect ckpt", exit=1, says="findings")
def two_items_for_one_chunk_in_a_finding(c):
    """
    damage: ckpt: tensor 'model.w': item_twice: chunk [2:4, 0:3]
    """
    two_items_for_one_chunk(c)


@case("item_twice", "consolidate ckpt out.pt")
def two_items_for_one_chunk(c):
    """
    dcpctl: ckpt: tensor 'model.w': item_twice: chunk [2:4, 0:3]
    hint: its own
    """
    c.items.append(c.item("model.w", 1))


@case("item_twice", "consolidate ckpt out.pt")
def two_items_for_one_object(c):
    """
    dcpctl: ckpt: object 'step': item_twice
    hint: its own
    """
    c.items.append(c.item("step"))


def slotted(c, state):
    """Records of a class of another module, with a state of `state` of their fields."""
    entries, at = Pairs(), {}
    for item in c.items:
        fields = {"relative_path": item.file, "offset": at.get(item.file, 0), "length": len(item.data.bytes())}
        at[item.file] = fields["offset"] + fields["length"]
        entries.append((item.op(0, 0)[0], new("acme.storage.Record", state(fields))))
    c.fields["storage_data"] = entries


@case(None, "inspect ckpt", "verify ckpt", "diff ckpt ckpt", exit=0)
def records_of_a_class_with_slots(c):
    slotted(c, lambda fields: (None, fields))


@case(None, "inspect ckpt", "verify ckpt", "diff ckpt ckpt", exit=0)
def records_of_a_class_with_slots_and_others(c):
    slotted(c, lambda fields: ({"relative_path": fields.pop("relative_path")}, fields))


@case("metadata_foreign_storage")
def records_of_a_class_with_other_slots(c):
    """
    dcpctl: ckpt/.metadata @ 0x832: tensor 'model.w': metadata_foreign_storage (got acme.storage.Record, expected _StorageInfo)
    """
    slotted(c, lambda fields: (None, {"url": fields["relative_path"]}))


@case("metadata_foreign_storage")
def storage_data_of_another_writer(c):
    """
    dcpctl: ckpt/.metadata @ 0x5c5: metadata_foreign_storage (got text 'model.w', expected MetadataIndex)
    """
    c.fields["storage_data"] = Pairs([("model.w", new("my.storage.Record", {"url": "s3://bucket/key"}))])


@case("metadata_foreign_storage")
def storage_records_of_another_class(c):
    """
    dcpctl: ckpt/.metadata @ 0x629: tensor 'model.w': metadata_foreign_storage (got os.system, expected _StorageInfo)
    """
    index = new(METADATA + "MetadataIndex", {"fqn": "model.w", "index": 0, "offset": Size((0, 0))})
    c.fields["storage_data"] = Pairs([(index, call("os.system", "touch executed"))])


@case("dtype_unknown", "consolidate ckpt out.pt")
def a_dtype_that_is_not_known_yet(c):
    """
    dcpctl: ckpt: tensor 'model.w': dtype_unknown: float2_e1m0
    hint: its own
    """
    c.tensors["model.w"].dtype = "torch.float2_e1m0"


@case("layout_not_strided", "consolidate ckpt out.pt")
def a_sparse_tensor(c):
    """
    dcpctl: ckpt: tensor 'model.w': layout_not_strided: float32 (not strided)
    hint: its own
    """
    c.tensors["model.w"].layout = "torch.sparse_coo"


@case("transform_unknown", "consolidate ckpt out.pt")
def a_transform_that_is_not_known(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': transform_unknown (got stream.rot13/1, expected stream.zstd/1)
    hint: its own
    """
    c.item("model.w").fields["transform_descriptors"] = ["stream.rot13/1"]


@case("zstd_broken", "consolidate ckpt out.pt")
def zstd_twice(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': zstd_broken: Unknown frame descriptor
    """
    c.item("model.w").fields["transform_descriptors"] = ["stream.zstd/1", "stream.zstd/1"]


@case("metadata_not_dcp")
def properties_as_the_root(c):
    """
    dcpctl: ckpt/.metadata @ 0xca: metadata_not_dcp (got torch.distributed.checkpoint.metadata.TensorProperties, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.root = properties()


@case("chunk_without_item", "consolidate ckpt out.pt")
def a_product_of_pinwheels(c):
    """
    dcpctl: ckpt: tensor 'model.w': chunk_without_item: chunk [0:1, 0:2, 0:1, 0:2, 0:1, 0:2, 0:1, 0:2, 0:1, 0:2, 0:1, 0:2]
    hint: its own
    """
    wheel = [((0, 0), (1, 2)), ((0, 2), (2, 1)), ((2, 1), (1, 2)), ((1, 0), (2, 1)), ((1, 1), (1, 1))]  # no straight cut goes between them
    boxes = [((), ())]
    for _ in range(6):
        boxes = [(o + p, s + q) for o, s in boxes for p, q in wheel]
    chunks = Op(pickle.EMPTY_LIST + pickle.MARK + b"".join(chunk_of_bytes(o, s) for o, s in boxes) + pickle.APPENDS)
    c.tensors["model.w"] = Tensor((3,) * 12, [], fields={"chunks": chunks})


def chunk_of_bytes(offsets, sizes):
    """chunk(), its numbers in one byte each."""
    def size(numbers):
        return glob("torch.Size") + pickle.MARK + b"".join(pickle.BININT1 + bytes([n]) for n in numbers) + pickle.TUPLE + pickle.TUPLE1 + pickle.REDUCE

    return new(METADATA + "ChunkStorageMetadata", {"offsets": Op(size(offsets)), "sizes": Op(size(sizes))})


@case("tensor_hole", "consolidate ckpt out.pt")
def terminal_codes_in_the_name_of_a_broken_tensor(c):
    r"""
    dcpctl: ckpt: tensor 'model.\x1b]0;owned\x07\u{202e}w\xff\x0d\x0a': tensor_hole: [1:2] in no chunk
    hint: its own
    """
    c.tensors["model.\x1b]0;owned\x07\u202ew\udcff\r\n"] = Tensor((2,), [((0,), (1,))])


# ---- shapes of Megatron


MCORE = "nd_reformulated_orig_global_shape"


@case("mcore_shape", "consolidate ckpt out.safetensors --mcore-shapes", "consolidate ckpt out.pt --mcore-shapes")
def a_shape_of_megatron_that_is_no_view(c):
    """
    dcpctl: ckpt: tensor 'model.w': mcore_shape: [3, 4] saved as [4, 3]
    hint: its own
    """
    c.fields["mcore_data"] = {"model.w": {MCORE: (3, 4)}, "model.b": {}}


@case(None, "consolidate ckpt out.pt -q --mcore-shapes", exit=0, creates=["out.pt"])
def shapes_of_megatron_that_are_none(c):
    """
    """
    strange = {"model.w": {MCORE: (-4, 3)}, "model.b": {MCORE: "2"}, "nobody": {MCORE: (7,)}, "step": {MCORE: (1,)}, 7: {}, "x": 8, "y": {MCORE: (1,) * 65, "z": 1}}
    c.fields["mcore_data"] = strange


# ---- what Python cannot load


@case("pickle_unloadable", "verify ckpt", says="findings", exit=1)
def a_key_that_is_not_utf8(c):
    r"""
    damage: ckpt/.metadata @ 0x2c4: pickle_unloadable (got text 'model.\xff', expected UTF-8)
    """
    c.tensors["model.\udcff"] = c.tensors.pop("model.b")
    c.item("model.b").key = "model.\udcff"


@case("pickle_unloadable", "inspect ckpt", says="findings", exit=1)
def a_key_that_is_not_utf8_and_inspect(c):
    r"""
    damage: ckpt/.metadata @ 0x2c4: pickle_unloadable (got text 'model.\xff', expected UTF-8)
    """
    c.tensors["model.\udcff"] = c.tensors.pop("model.b")
    c.item("model.b").key = "model.\udcff"


@case("pickle_unloadable", "consolidate ckpt out.pt", "reshard ckpt out --world-size 2")
def a_key_that_is_not_utf8_and_a_pickle(c):
    r"""
    dcpctl: ckpt: tensor 'model.\xff': pickle_unloadable: a key that is not UTF-8
    hint: kOtherName
    """
    c.tensors["model.\udcff"] = c.tensors.pop("model.b")
    c.item("model.b").key = "model.\udcff"


@case("metadata_field", "verify ckpt", "verify ckpt --quick", says="findings", exit=1)
def a_dtype_that_torch_has_not(c):
    """
    damage: ckpt/.metadata @ 0x172: tensor 'model.w': metadata_field (got TensorProperties.dtype: torch.float3, expected one whose tensors torch 2.15 can load)
    warning: ckpt/.metadata: pickle_unsafe: torch.float3
    """
    c.tensors["model.w"].dtype = "torch.float3"


@case("metadata_field", "verify ckpt --quick", "inspect ckpt --fail-on damage", says="findings", exit=1)
def a_dtype_that_nothing_is_saved_in(c):
    """
    damage: ckpt/.metadata @ 0x170: tensor 'model.w': metadata_field (got TensorProperties.dtype: torch.int4, expected one whose tensors torch 2.15 can load)
    """
    c.tensors["model.w"].dtype = "torch.int4"


@case("metadata_field", "verify ckpt --quick", "inspect ckpt --fail-on damage", says="findings", exit=1)
def a_class_for_a_dtype(c):
    """
    damage: ckpt/.metadata @ 0x172: tensor 'model.w': metadata_field (got TensorProperties.dtype: torch.Tensor, expected one whose tensors torch 2.15 can load)
    """
    c.tensors["model.w"].dtype = "torch.Tensor"


@case("metadata_field", "verify ckpt --quick", "inspect ckpt --fail-on damage", says="findings", exit=1)
def a_storage_meta_that_is_a_dict(c):
    """
    damage: ckpt/.metadata @ 0x961: metadata_field (got Metadata.storage_meta: dict, expected StorageMeta)
    """
    c.fields["storage_meta"] = {"load_id": None}


@case("metadata_field", "verify ckpt", "verify ckpt --quick", says="findings", exit=1)
def a_size_that_is_a_list(c):
    """
    damage: ckpt/.metadata @ 0x2b5: tensor 'model.w': metadata_field (got TensorStorageMetadata.size: a list, expected torch.Size)
    """
    c.tensors["model.w"].fields["size"] = list(c.tensors["model.w"].size)
