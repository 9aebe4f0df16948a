"""Items that are compressed as a whole, by zstd."""
from recipes import case, compressed, tensor_item, zstd

COMMANDS = ["consolidate ckpt out.pt"]
SIX = range(6)


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def a_whole_zstd_stream_is_fine(c):
    """

    """
    compressed(c, "model.w", zstd(tensor_item(SIX, (2, 3)).bytes()))


@case("zstd_broken")
def no_zstd_stream(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': zstd_broken (got Unknown frame descriptor)
    """
    compressed(c, "model.w", tensor_item(SIX, (2, 3)).bytes())


@case("zstd_truncated")
def a_zstd_stream_cut_short(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2b3: tensor 'model.w': zstd_truncated
    """
    compressed(c, "model.w", zstd(tensor_item(SIX, (2, 3)).bytes())[:-100])


@case("zstd_window")
def a_zstd_window_of_gibibytes(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': zstd_window (got more than 128 MiB)
    """
    compressed(c, "model.w", zstd(b"x", window=22))


@case("zstd_too_large")
def a_zstd_bomb_for_a_tensor(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x20a: tensor 'model.w': zstd_too_large
    """
    compressed(c, "model.w", zstd(*[(b"\0", 1 << 17)] * 80000))


@case("over_limit", "consolidate ckpt out.pt")
def a_zstd_bomb_for_an_object(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x59c: object 'step': over_limit (got a zstd stream of 320006 bytes that holds more, expected at most 13508704)
    hint: give a larger --max-pickle if you trust where the file comes from
    """
    compressed(c, "step", zstd(*[(b"\0", 1 << 17)] * 80000))


@case("memory_cap", "consolidate ckpt out.pt --max-memory 48MiB --max-pickle 1GiB", exit=4)
def a_zstd_bomb_for_an_object_that_the_user_trusts(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x59c: object 'step': memory_cap (got objects need N MiB or more, 48.0 MiB allowed)
    hint: give --max-memory NMiB, or leave the key out with --exclude
    """
    compressed(c, "step", zstd(*[(b"\0", 1 << 17)] * 80000))


@case("crc_mismatch")
def a_wrong_crc_inside_zstd(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': crc_mismatch (got CRC-32 91e79017 over 24 bytes, expected CRC-32 00000007)
    hint: its own
    """
    item = tensor_item(SIX, (2, 3))
    item["data/0"].crc = 7
    compressed(c, "model.w", zstd(item.bytes()))
