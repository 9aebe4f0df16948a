"""Boxes against boxes and items against files: what is cut, what is there, what overlaps."""
from recipes import Item, Tensor, case, tensor_item

COMMANDS = ["consolidate ckpt out.pt"]


@case("tensor_hole")
def a_row_in_no_chunk(c):
    """
    dcpctl: ckpt: tensor 'model.w': tensor_hole: [2:3, 0:3] in no chunk
    hint: its own
    """
    c.tensors["model.w"].chunks = [((0, 0), (2, 3)), ((3, 0), (1, 3))]


@case("tensor_hole", "inspect ckpt", exit=1, says="findings")
def a_row_in_no_chunk_is_a_finding(c):
    """
    damage: ckpt: tensor 'model.w': tensor_hole: [2:3, 0:3] in no chunk
    damage: ckpt: tensor 'model.w': chunk_without_item: chunk [3:4, 0:3]
    warning: ckpt/__1_0.distcp @ 0x0: tensor 'model.w': item_without_chunk
    """
    c.tensors["model.w"].chunks = [((0, 0), (2, 3)), ((3, 0), (1, 3))]


@case("tensor_hole")
def no_chunks_at_all(c):
    """
    dcpctl: ckpt: tensor 'model.w': tensor_hole: [0:4, 0:3] in no chunk
    hint: its own
    """
    c.tensors["model.w"].chunks = []


@case("tensor_hole")
def a_corner_in_no_chunk(c):
    """
    dcpctl: ckpt: tensor 'model.w': tensor_hole: [2:4, 2:3] in no chunk
    hint: its own
    """
    c.tensors["model.w"].chunks = [((0, 0), (2, 3)), ((2, 0), (2, 2))]


@case("tensor_hole")
def a_scalar_in_no_chunk(c):
    """
    dcpctl: ckpt: tensor 'model.b': tensor_hole: [] in no chunk
    hint: its own
    """
    c.tensors["model.b"] = Tensor((), [])


@case("chunks_overlap")
def two_chunks_overlap(c):
    """
    dcpctl: ckpt: tensor 'model.w': chunks_overlap: [2:3, 0:3] in two chunks
    hint: its own
    """
    c.tensors["model.w"].chunks = [((0, 0), (3, 3)), ((2, 0), (2, 3))]


@case("chunks_overlap", "inspect ckpt", exit=1, says="findings")
def two_chunks_overlap_is_a_finding(c):
    """
    damage: ckpt: tensor 'model.w': chunks_overlap: [2:3, 0:3] in two chunks
    """
    c.tensors["model.w"].chunks = [((0, 0), (3, 3)), ((2, 0), (2, 3))]


@case("chunks_overlap")
def one_chunk_twice(c):
    """
    dcpctl: ckpt: tensor 'model.w': chunks_overlap: [0:2, 0:3] in two chunks
    hint: its own
    """
    c.tensors["model.w"].chunks *= 2


@case("chunks_overlap")
def chunks_whose_volume_is_right_but_overlap(c):
    """
    dcpctl: ckpt: tensor 'model.w': chunks_overlap: [0:2, 1:2] in two chunks
    hint: its own
    """
    c.tensors["model.w"].chunks = [((0, 0), (2, 2)), ((0, 1), (2, 2)), ((2, 0), (2, 2))]


@case("chunk_without_item")
def a_chunk_without_an_item(c):
    """
    dcpctl: ckpt: tensor 'model.w': chunk_without_item: chunk [2:4, 0:3]
    hint: its own
    """
    c.items.pop()


@case("chunk_without_item", "inspect ckpt", exit=1, says="findings")
def a_chunk_without_an_item_is_a_finding(c):
    """
    damage: ckpt: tensor 'model.w': chunk_without_item: chunk [2:4, 0:3]
    """
    c.items.pop()


@case("chunk_without_item")
def an_object_without_an_item(c):
    """
    dcpctl: ckpt: object 'step': chunk_without_item
    hint: its own
    """
    c.items.remove(c.item("step"))


@case("item_without_chunk", "inspect ckpt", exit=0, says="findings")
def an_item_of_a_key_that_is_not_there(c):
    """
    warning: ckpt/__1_0.distcp @ 0x30e: tensor 'model.old': item_without_chunk
    """
    c.items.append(Item("model.old", (0,), "__1_0.distcp", tensor_item([1], (1,))))


@case("item_without_chunk", "inspect ckpt", exit=0, says="findings")
def an_item_at_offsets_of_no_chunk(c):
    """
    warning: ckpt/__1_0.distcp @ 0x30e: tensor 'model.w': item_without_chunk
    """
    c.items.append(Item("model.w", (1, 0), "__1_0.distcp", tensor_item(range(3), (1, 3))))


@case("item_past_end")
def an_item_past_the_end_of_its_file(c):
    """
    dcpctl: ckpt/__1_0.distcp @ 0x64: tensor 'model.w': item_past_end (got a file of 782 bytes, expected at least 882)
    hint: the file was cut short: restore it from the original; 'dcpctl verify ckpt' says what of it is whole
    """
    c.item("model.w", 1).fields["offset"] = 100


@case("item_past_end")
def an_item_at_the_end_of_64_bits(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x7fffffffffffffff: tensor 'model.w': item_past_end (got a file of 1838 bytes, expected at least 18446744073709551614)
    hint: the file was cut short: restore it from the original; 'dcpctl verify ckpt' says what of it is whole
    """
    c.item("model.w").fields.update(offset=(1 << 63) - 1, length=(1 << 63) - 1)


@case("zip_no_end")
def an_item_of_no_bytes(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': zip_no_end
    """
    c.item("model.w").fields["length"] = 0


@case("zip_bad_end")
def an_item_that_begins_too_late(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': zip_bad_end (got 246 bytes of directory at 514, expected an end at 696)
    """
    c.item("model.w").fields.update(offset=64, length=len(c.item("model.w").data.bytes()) - 64)


@case("chunk_shape_differs")
def two_items_exchanged(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': chunk_shape_differs (got [0:2], expected [0:2, 0:3])
    """
    w, b = c.item("model.w"), c.item("model.b")
    w.data, b.data = b.data, w.data
