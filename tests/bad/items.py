"""The contents of one item: its words, the pickle that describes the tensor, the storage."""
import pickle
import struct

from recipes import Op, Record, archive, call, case, data_pkl, dump, glob, op, rebuild, storage, tensor_item

COMMANDS = ["consolidate ckpt out.pt"]
SIX = range(6)


def tensor(c, item):
    c.item("model.w").data = item


# ---- records


@case("item_no_record")
def no_pickle(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x0: tensor 'model.w': item_no_record
    """
    c.item("model.w").data.records.pop(0)


@case("item_no_record")
def no_version(c):
    """
    dcpctl: ckpt/__0_0.distcp > version @ 0x0: tensor 'model.w': item_no_record
    """
    c.item("model.w").data.records.pop()


@case("item_no_record")
def no_storage(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/7 @ 0x0: tensor 'model.w': item_no_record
    """
    tensor(c, tensor_item(SIX, (2, 3), stored=storage(key="7", count=6)))


@case("item_version")
def a_version_of_the_future(c):
    r"""
    dcpctl: ckpt/__0_0.distcp > version @ 0x198: tensor 'model.w': item_version (got 11\x0a, expected 1 to 10)
    """
    c.item("model.w").data["version"].data = b"11\n"


@case("crc_mismatch")
def a_version_whose_crc_is_wrong(c):
    """
    dcpctl: ckpt/__0_0.distcp > version @ 0x200: tensor 'model.w': crc_mismatch
    hint: its own
    """
    c.item("model.w").data["version"].crc = 1


@case("crc_mismatch")
def a_byte_order_whose_crc_is_wrong(c):
    """
    dcpctl: ckpt/__0_0.distcp > byteorder @ 0x140: tensor 'model.w': crc_mismatch
    hint: its own
    """
    c.item("model.w").data["byteorder"].crc = 1


@case("item_version")
def a_version_that_is_no_number(c):
    r"""
    dcpctl: ckpt/__0_0.distcp > version @ 0x198: tensor 'model.w': item_version (got three\x0a, expected 1 to 10)
    """
    c.item("model.w").data["version"].data = b"three\n"


@case("item_version")
def a_version_of_a_kilobyte(c):
    """
    dcpctl: ckpt/__0_0.distcp > version @ 0x200: tensor 'model.w': item_version (got 1024 bytes)
    """
    c.item("model.w").data["version"].data = b"3" * 1024


@case("item_byteorder")
def an_unknown_byte_order(c):
    """
    dcpctl: ckpt/__0_0.distcp > byteorder @ 0xd7: tensor 'model.w': item_byteorder (got middle, expected little or big)
    """
    c.item("model.w").data["byteorder"].data = b"middle"


@case("item_alignment")
def an_alignment_that_is_no_number(c):
    """
    dcpctl: ckpt/__0_0.distcp > .storage_alignment @ 0x202: tensor 'model.w': item_alignment (got wide, expected digits)
    """
    c.item("model.w").data.records.append(Record(".storage_alignment", b"wide"))


@case("over_limit")
def a_pickle_of_20_mebibytes(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': over_limit (got 20971520 bytes, expected at most 16777216)
    hint: give --max-pickle 21MiB if you trust where the file comes from
    """
    c.item("model.w").data["data.pkl"].data = bytes(20 << 20)


@case("item_not_archive", "verify ckpt", says="findings", exit=1)
def bytes_before_the_archive(c):
    r"""
    damage: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': item_not_archive (got text '\x80\x02le' at its begin, expected 'PK\x03\x04')
    """
    c.item("model.w").data.before = b"\x80\2legacy\0"


@case("item_not_archive")
def a_torchscript_archive_for_a_tensor(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': item_not_archive (got constants.pkl, as TorchScript has)
    """
    c.item("model.w").data.records.append(Record("constants.pkl", b"\x80\2)."))


@case("item_is_safetensors")
def a_safetensors_file(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': item_is_safetensors
    """
    header = b'{"model.w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}'
    tensor(c, struct.pack("<Q", len(header)) + header + bytes(24))


# ---- the tensor


@case("pickle_underflow")
def a_pickle_that_underflows(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x42: tensor 'model.w': pickle_underflow (got 0 values, expected 2 for REDUCE)
    """
    data_pkl(c, Op(pickle.REDUCE))


@case("item_not_tensor")
def a_number_instead_of_a_tensor(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_not_tensor (got 7, expected a tensor)
    """
    data_pkl(c, 7)


@case("item_bad_tensor")
def a_tensor_of_three_arguments(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_tensor (got a tuple of 3, expected a tuple of 6 or 7 arguments)
    """
    data_pkl(c, call("torch._utils._rebuild_tensor_v2", storage(count=6), 0, (2, 3)))


@case("item_bad_tensor")
def sizes_that_are_no_tuple(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_tensor (got 6, expected a tuple of sizes)
    """
    data_pkl(c, call("torch._utils._rebuild_tensor_v2", storage(count=6), 0, 6, (3, 1), False, None))


@case("item_bad_tensor")
def requires_grad_that_is_a_number(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_tensor (got 1, expected True or False for requires_grad)
    """
    tensor(c, tensor_item(SIX, (2, 3), rest=(1, None)))


@case("item_bad_tensor", "verify ckpt", says="findings", exit=1)
def requires_grad_of_integers(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_tensor (got requires_grad of int32, expected a floating-point or complex dtype)
    """
    rebuilt = rebuild(storage("torch.IntStorage", count=12), (4, 3), rest=(True, call("collections.OrderedDict")))
    data_pkl(c, rebuilt)


@case("item_bad_tensor")
def flags_that_are_not_known(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_tensor (got text 'zip', expected the flags conj and neg)
    """
    tensor(c, tensor_item(SIX, (2, 3), rest=(False, None, {"zip": True})))


@case("item_bad_tensor")
def the_conjugate_of_real_numbers(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_tensor (got conj of float32)
    """
    tensor(c, tensor_item(SIX, (2, 3), rest=(False, None, {"conj": True})))


@case("over_limit", "consolidate ckpt out.pt --max-pickle 5")
def a_pickle_over_the_cap_that_was_given(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': over_limit (got 151 bytes, expected at most 5)
    hint: give --max-pickle 1MiB if you trust where the file comes from
    """


@case("item_bad_storage")
def a_storage_that_is_a_tuple(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_storage (got a tuple of 2, expected a persistent id)
    """
    tensor(c, tensor_item(SIX, (2, 3), stored=op(("storage", 6))))


@case("item_bad_storage")
def a_persistent_id_that_is_no_storage(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_storage (got a tuple of 5, expected ('storage', class, key, location, count))
    """
    tensor(c, tensor_item(SIX, (2, 3), stored=storage(kind="module", count=6)))


@case("item_bad_storage")
def a_storage_of_negative_size(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_storage (got -6, expected a storage's size)
    """
    tensor(c, tensor_item(SIX, (2, 3), stored=storage(count=-6)))


@case("item_bad_storage")
def a_storage_without_type_in_the_old_form(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_storage (got an untyped storage, expected a typed one)
    """
    tensor(c, tensor_item(SIX, (2, 3), stored=storage("torch.storage.UntypedStorage", count=24)))


@case("item_unknown_dtype")
def a_storage_of_an_unknown_type(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_unknown_dtype (got torch.TernaryStorage)
    """
    tensor(c, tensor_item(SIX, (2, 3), stored=storage("torch.TernaryStorage", count=6)))


@case("item_unknown_dtype")
def a_dtype_of_the_future(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_unknown_dtype (got torch.float2_e1m0)
    """
    stored = storage("torch.storage.UntypedStorage", count=24)
    rest = (False, None, glob("torch.float2_e1m0"))
    tensor(c, tensor_item(SIX, (2, 3), stored=stored, rest=rest, function="torch._utils._rebuild_tensor_v3"))


@case("item_bad_shape")
def a_negative_size(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_shape (got -3, expected sizes)
    """
    tensor(c, tensor_item(SIX, (2, -3)))


@case("item_bad_shape")
def a_negative_stride(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_shape (got -1, expected strides)
    """
    tensor(c, tensor_item(SIX, (2, 3), strides=(3, -1)))


@case("item_bad_shape")
def one_stride_for_two_dims(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_shape (got 1 strides, expected 2)
    """
    tensor(c, tensor_item(SIX, (2, 3), strides=(1,)))


@case("over_limit")
def a_tensor_of_100_dims(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': over_limit (got 100 dims, expected at most 64)
    """
    tensor(c, tensor_item(SIX, (1,) * 100))


@case("number_overflow")
def sizes_whose_product_overflows(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': number_overflow (got 1099511627776 * 1099511627776)
    """
    tensor(c, tensor_item(SIX, (1 << 40, 1 << 40), strides=(0, 0)))


@case("number_overflow")
def strides_that_overflow(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': number_overflow (got 18446744073709551614 + 2)
    """
    tensor(c, tensor_item(SIX, (3, 3), strides=((1 << 63) - 1, 1)))


@case("number_overflow")
def a_storage_whose_bytes_overflow(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': number_overflow (got 9223372036854775807 * 4)
    """
    tensor(c, tensor_item(SIX, (2, 3), stored=storage(count=(1 << 63) - 1)))


@case("item_outside_storage")
def strides_past_the_storage(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_outside_storage (got element 6, expected less than 6)
    """
    tensor(c, tensor_item(SIX, (2, 3), strides=(4, 1)))


@case("item_outside_storage")
def an_offset_past_the_storage(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_outside_storage (got element 6, expected less than 6)
    """
    tensor(c, tensor_item(SIX, (2, 3), offset=1))


@case("item_short_storage")
def a_storage_longer_than_its_record(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x180: tensor 'model.w': item_short_storage (got 24 bytes, expected 4000)
    """
    tensor(c, tensor_item(SIX, (2, 3), stored=storage(count=1000)))


@case("item_long_storage")
def a_record_longer_than_its_storage(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x180: tensor 'model.w': item_long_storage (got 28 bytes, expected 24)
    """
    c.item("model.w").data["data/0"].data += bytes(4)


@case("chunk_shape_differs")
def another_shape_than_the_chunk(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': chunk_shape_differs (got [0:3, 0:2], expected [0:2, 0:3])
    """
    tensor(c, tensor_item(SIX, (3, 2)))


@case("dtype_not_convertible")
def quantized_bits_for_a_float_tensor(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': dtype_not_convertible (got qint8, expected float32)
    hint: its own
    """
    tensor(c, archive(dump(rebuild(storage("torch.QInt8Storage", count=6), (2, 3)), 2), bytes(6)))


@case("item_not_tensor", "verify ckpt", says="findings", exit=1)
def a_class_of_tensors_that_is_called(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_not_tensor (got torch.FloatTensor, expected a tensor)
    """
    data_pkl(c, call("torch.FloatTensor", 2, 3))


@case("item_bad_tensor", "verify ckpt", says="findings", exit=1)
def a_tensor_that_is_given_a_state(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_bad_tensor (got a state: a dict, expected none)
    """
    data_pkl(c, Op(rebuild(storage(count=6), (2, 3)) + op({"note": 1}) + pickle.BUILD))


# ---- tensors that are not plain


def put_quantized(c, *storages, count=2, size=None, dtype="torch.qint8"):
    """`model.b` as a quantized tensor."""
    stored, scheme = storage("torch.QInt8Storage", count=count), (glob("torch.per_tensor_affine"), 1, 0)
    c.tensors["model.b"].dtype = dtype
    made = call("torch._utils._rebuild_qtensor", stored, 0, (size or count,), (1,), scheme, False, call("collections.OrderedDict"))
    c.item("model.b").data = archive(dump(made, 2), *storages)


@case("item_short_storage", "verify ckpt", says="findings", exit=1)
def a_quantized_tensor_whose_storage_is_short(c):
    """
    damage: ckpt/__0_0.distcp > data/0 @ 0x48e: tensor 'model.b': item_short_storage (got 1 bytes, expected 2)
    """
    put_quantized(c, bytes(1))


@case("item_no_record")
def a_quantized_tensor_whose_storage_is_missing(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x30e: tensor 'model.b': item_no_record
    """
    put_quantized(c)


@case("item_outside_storage", "verify ckpt", says="findings", exit=1)
def a_quantized_tensor_past_its_storage(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x34e: tensor 'model.b': item_outside_storage (got element 1, expected less than 1)
    """
    put_quantized(c, bytes(1), count=1, size=2)


@case("chunk_shape_differs", "verify ckpt", says="findings", exit=1)
def a_quantized_tensor_of_another_shape(c):
    """
    damage: ckpt/__0_0.distcp @ 0x30e: tensor 'model.b': chunk_shape_differs (got [0:5], expected [0:2])
    """
    put_quantized(c, bytes(5), count=5)


@case("dtype_not_convertible", "verify ckpt", says="findings", exit=1)
def a_quantized_tensor_where_the_metadata_says_float(c):
    """
    damage: ckpt/__0_0.distcp @ 0x30e: tensor 'model.b': dtype_not_convertible (got qint8, expected float32)
    """
    put_quantized(c, bytes(2), dtype="torch.float32")


@case("opaque_sharded")
def a_tensor_subclass_in_two_chunks(c):
    """
    dcpctl: ckpt: tensor 'model.w': opaque_sharded (got 2 chunks)
    hint: its own
    """
    data_pkl(c, call("torch._utils._rebuild_wrapper_subclass", glob("torchao.dtypes.AffineQuantizedTensor"), storage(count=6)))


@case("item_not_tensor")
def os_system_in_place_of_a_tensor(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_not_tensor (got os.system, expected a tensor)
    """
    data_pkl(c, call("os.system", "touch executed"))
