"""The header of one safetensors file: its length, its JSON, what it says of the tensors, and how their bytes lie."""
import json
import struct

from recipes import case

COMMANDS = ["inspect m.safetensors", "consolidate m.safetensors out.pt"]


def put(c, header, data=b"", length=None):
    """A file of this header, JSON or its text, with `length` for the header's length."""
    c.written = True
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    (c.folder.parent / "m.safetensors").write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


def entry(begin=0, end=8, shape=(2,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


# ---- its length and its JSON


@case("safetensors_bad_length")
def a_length_of_exabytes(c):
    """
    dcpctl: m.safetensors: safetensors_bad_length (got 18446744073709551615, expected at most 69)
    """
    put(c, {"w": entry()}, bytes(8), length=(1 << 64) - 1)


@case("safetensors_bad_length")
def a_length_that_overflows_with_its_own_eight_bytes(c):
    """
    dcpctl: m.safetensors: safetensors_bad_length (got 18446744073709551608, expected at most 69)
    """
    put(c, {"w": entry()}, bytes(8), length=(1 << 64) - 8)


@case("safetensors_bad_length")
def a_length_of_one_byte_too_many(c):
    """
    dcpctl: m.safetensors: safetensors_bad_length (got 62, expected at most 61)
    """
    header = json.dumps({"w": entry()}).encode()
    put(c, header, length=len(header) + 1)


@case("over_limit")
def a_header_over_the_cap(c):
    """
    dcpctl: m.safetensors: over_limit (got 314572800 bytes of JSON, expected at most 268435456)
    """
    put(c, b"{}")
    with open(c.folder.parent / "m.safetensors", "r+b") as made:
        made.write(struct.pack("<Q", 300 << 20))
        made.truncate(301 << 20)  # of which nothing is on the disk


@case("safetensors_bad_json")
def a_header_of_nothing(c):
    """
    dcpctl: m.safetensors @ 0x8: safetensors_bad_json
    """
    put(c, b"")


@case("safetensors_bad_json")
def a_header_that_is_a_list(c):
    """
    dcpctl: m.safetensors @ 0x8: safetensors_bad_json
    """
    put(c, [entry()], bytes(8))


@case("safetensors_bad_json")
def a_header_cut_in_its_json(c):
    """
    dcpctl: m.safetensors @ 0x44: safetensors_bad_json
    """
    put(c, json.dumps({"w": entry()}).encode()[:-1], bytes(8))


@case("safetensors_bad_json")
def a_header_with_a_nul(c):
    """
    dcpctl: m.safetensors @ 0x8: safetensors_bad_json
    """
    put(c, json.dumps({"w": entry()}).encode() + b"\0" * 7, bytes(8))


@case("safetensors_bad_json")
def a_header_that_is_no_text(c):
    """
    dcpctl: m.safetensors @ 0xb: safetensors_bad_json
    """
    put(c, b'{"w\xff": ' + json.dumps(entry()).encode() + b"}", bytes(8))


@case("safetensors_bad_json")
def more_json_behind_the_header(c):
    """
    dcpctl: m.safetensors @ 0x46: safetensors_bad_json
    """
    put(c, json.dumps({"w": entry()}).encode() + b" {}", bytes(8))


@case("over_limit")
def a_header_nested_100000_deep(c):
    """
    dcpctl: m.safetensors: over_limit (got JSON nested 65 deep, expected at most 64)
    """
    put(c, b'{"w": ' + b"[" * 100000 + b"]" * 100000 + b"}")


@case("safetensors_hole")
def a_header_of_a_mebibyte_of_tensors(c):
    """
    dcpctl: m.safetensors: safetensors_hole (got a file of 1093899 bytes, expected 1093898)
    """
    put(c, {f"{n}": entry(0, 0, (0,)) for n in range(17000)}, bytes(1))


# ---- what is in it twice


@case("safetensors_duplicate")
def a_tensor_twice(c):
    """
    dcpctl: m.safetensors: safetensors_duplicate: w
    """
    one = json.dumps(entry(0, 0, (0,))).encode()
    put(c, b'{"w": ' + one + b', "w": ' + one + b"}", b"")


@case("safetensors_duplicate")
def a_shape_twice(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_duplicate: shape
    """
    put(c, b'{"w": {"dtype": "F32", "shape": [2], "shape": [4], "data_offsets": [0, 8]}}', bytes(8))


@case("safetensors_duplicate")
def the_metadata_twice(c):
    """
    dcpctl: m.safetensors: safetensors_duplicate: __metadata__
    """
    put(c, b'{"__metadata__": {"a": "b"}, "__metadata__": {"a": "c"}, "w": ' + json.dumps(entry()).encode() + b"}", bytes(8))


@case("safetensors_duplicate")
def a_member_of_the_metadata_twice(c):
    """
    dcpctl: m.safetensors: safetensors_duplicate: a
    """
    put(c, b'{"__metadata__": {"a": "b", "a": "c"}, "w": ' + json.dumps(entry()).encode() + b"}", bytes(8))


# ---- what it says of a tensor


@case("safetensors_bad_header")
def metadata_that_is_a_number(c):
    """
    dcpctl: m.safetensors: safetensors_bad_header: a value at 'a'
    """
    put(c, {"__metadata__": {"a": 7}, "w": entry()}, bytes(8))


@case("safetensors_bad_header", "consolidate m.safetensors out.pt")
def a_tensor_that_is_a_number(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_header: a value in the place of a tensor's description
    hint: kFewerKeys
    """
    put(c, {"w": 7}, bytes(8))


@case("safetensors_bad_header", "consolidate m.safetensors out.pt")
def a_tensor_without_its_dtype(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_header: no dtype
    hint: kFewerKeys
    """
    put(c, {"w": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8))


@case("safetensors_bad_header", "consolidate m.safetensors out.pt")
def a_tensor_without_its_shape(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_header: no shape
    hint: kFewerKeys
    """
    put(c, {"w": {"dtype": "F32", "data_offsets": [0, 8]}}, bytes(8))


@case("safetensors_bad_header", "consolidate m.safetensors out.pt")
def a_tensor_without_its_place(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_header: no data_offsets
    hint: kFewerKeys
    """
    put(c, {"w": {"dtype": "F32", "shape": [2]}}, bytes(8))


@case("safetensors_bad_header", "consolidate m.safetensors out.pt")
def a_shape_that_is_text(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_header: a value at 'shape'
    hint: kFewerKeys
    """
    put(c, {"w": {**entry(), "shape": "2"}}, bytes(8))


@case("safetensors_bad_header", "consolidate m.safetensors out.pt")
def a_negative_size(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_header: a value at 'shape'
    hint: kFewerKeys
    """
    put(c, {"w": entry(shape=(-2,))}, bytes(8))


@case("safetensors_bad_header", "consolidate m.safetensors out.pt")
def a_size_with_a_fraction(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_header: a value at 'shape'
    hint: kFewerKeys
    """
    put(c, {"w": entry(shape=(2.5,))}, bytes(8))


@case("safetensors_bad_header", "consolidate m.safetensors out.pt")
def a_size_beyond_64_bits(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_header: a value at 'shape'
    hint: kFewerKeys
    """
    put(c, {"w": entry(shape=(1 << 64,))}, bytes(8))


@case("number_overflow", "consolidate m.safetensors out.pt")
def sizes_whose_product_overflows(c):
    """
    dcpctl: m.safetensors: tensor 'w': number_overflow: 4398046511104 * 1099511627776
    hint: kFewerKeys
    """
    put(c, {"w": entry(shape=(1 << 40, 1 << 40))}, bytes(8))


@case("over_limit")
def a_tensor_of_65_dims(c):
    """
    dcpctl: m.safetensors: tensor 'w': over_limit (got 65 numbers, expected at most 64)
    """
    put(c, {"w": entry(0, 4, (1,) * 65)}, bytes(4))


@case("safetensors_bad_range", "consolidate m.safetensors out.pt")
def three_numbers_for_a_place(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_range (got data_offsets [0, 8, 8], expected 8 bytes)
    hint: kFewerKeys
    """
    put(c, {"w": {**entry(), "data_offsets": [0, 8, 8]}}, bytes(8))


@case("safetensors_bad_range", "consolidate m.safetensors out.pt")
def an_end_before_the_beginning(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_range (got data_offsets [8, 0], expected 8 bytes)
    hint: kFewerKeys
    """
    put(c, {"w": entry(8, 0)}, bytes(8))


@case("safetensors_bad_range", "consolidate m.safetensors out.pt")
def more_bytes_than_the_shape_needs(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_range (got data_offsets [0, 12], expected 8 bytes)
    hint: kFewerKeys
    """
    put(c, {"w": entry(0, 12)}, bytes(12))


@case("safetensors_bad_range", "consolidate m.safetensors out.pt")
def half_an_element_of_float4(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_range (got an odd number of values in the last dim, expected pairs)
    hint: kFewerKeys
    """
    put(c, {"w": entry(0, 2, (3,), "F4")}, bytes(2))


# ---- how the bytes lie


@case("safetensors_hole")
def a_hole_between_two_tensors(c):
    """
    dcpctl: m.safetensors @ 0x90: tensor 'w': safetensors_hole (got a start at 144, expected 140)
    """
    put(c, {"v": entry(0, 8), "w": entry(12, 20)}, bytes(20))


@case("safetensors_hole")
def a_hole_before_the_first(c):
    """
    dcpctl: m.safetensors @ 0x4a: tensor 'w': safetensors_hole (got a start at 74, expected 70)
    """
    put(c, {"w": entry(4, 12)}, bytes(12))


@case("safetensors_hole")
def bytes_behind_the_last(c):
    """
    dcpctl: m.safetensors: safetensors_hole (got a file of 81 bytes, expected 77)
    """
    put(c, {"w": entry()}, bytes(12))


@case("safetensors_hole")
def two_tensors_in_one_place(c):
    """
    dcpctl: m.safetensors @ 0x82: tensor 'w': safetensors_hole (got a start at 130, expected 138)
    """
    put(c, {"v": entry(), "w": entry()}, bytes(8))


@case("item_past_end", "consolidate m.safetensors out.pt")
def a_place_past_the_end(c):
    """
    dcpctl: m.safetensors @ 0x5c: tensor 'w': item_past_end (got a file of 100 bytes, expected at least 1099511627868)
    hint: the file was cut short: restore it from the original; 'dcpctl verify m.safetensors' says what of it is whole
    """
    put(c, {"w": entry(0, 1 << 40, (1 << 38,))}, bytes(8))


@case("safetensors_bad_range", "consolidate m.safetensors out.pt")
def a_place_at_the_end_of_64_bits(c):
    """
    dcpctl: m.safetensors: tensor 'w': safetensors_bad_range (got data_offsets [18446744073709551608, 18446744073709551615], expected 8 bytes)
    hint: kFewerKeys
    """
    put(c, {"v": entry(0, 0, (0,)), "w": entry((1 << 64) - 8, (1 << 64) - 1)}, bytes(8))


@case("safetensors_hole")
def empty_tensors_anywhere(c):
    """
    dcpctl: m.safetensors @ 0x86: tensor 'v': safetensors_hole (got a start at 134, expected 138)
    """
    put(c, {"v": entry(4, 4, (0,)), "w": entry(0, 8)}, bytes(8))


# ---- an entry that cannot be read, beside others


LOST = {"w": entry(), "lost": {"dtype": "", "shape": [], "data_offsets": [8, 8]}}


@case("safetensors_no_data", "verify m.safetensors", exit=1, says="findings")
def an_entry_without_data_in_a_finding(c):
    """
    damage: m.safetensors: tensor 'lost': safetensors_no_data
    """
    put(c, LOST, bytes(8))


@case("safetensors_no_data", "consolidate m.safetensors out.pt")
def an_entry_without_data(c):
    """
    dcpctl: m.safetensors: tensor 'lost': safetensors_no_data
    hint: kFewerKeys
    """
    put(c, LOST, bytes(8))


@case(None, "consolidate m.safetensors out.pt --exclude lost", exit=0, creates=["out.pt"])
def an_entry_without_data_left_out(c):
    """
    dcpctl: left out 1 key by --exclude: lost
    """
    put(c, LOST, bytes(8))


@case(None, "consolidate m.safetensors out.pt --exclude odd", exit=0, creates=["out.pt"])
def an_entry_with_a_wrong_range_left_out(c):
    """
    dcpctl: left out 1 key by --exclude: odd
    """
    put(c, {"odd": entry(0, 4), "w": entry(4, 12)}, bytes(12))
