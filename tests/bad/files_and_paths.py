"""What lies in the folder: names that lead elsewhere, links, pipes, missing and short files, damaged bytes."""
import os
import shutil

from recipes import case

COMMANDS = ["consolidate ckpt out.pt"]
BOTH = ["inspect ckpt", "consolidate ckpt out.pt"]


def named(c, name):
    c.write()
    c.item("model.w", 1).fields["relative_path"] = name
    (c.folder / ".metadata").write_bytes(c.pickle())


# ---- names


@case("path_escapes")
def a_name_with_dots(c):
    """
    dcpctl: ckpt: path_escapes: '../ckpt/__1_0.distcp'
    """
    named(c, "../ckpt/__1_0.distcp")


@case("path_escapes")
def a_name_with_dots_inside(c):
    """
    dcpctl: ckpt: path_escapes: 'sub/../../ckpt/__1_0.distcp'
    """
    named(c, "sub/../../ckpt/__1_0.distcp")


@case("path_escapes")
def an_absolute_name(c):
    """
    dcpctl: ckpt: path_escapes: '/etc/passwd'
    """
    named(c, "/etc/passwd")


@case("path_escapes")
def a_name_with_nul(c):
    r"""
    dcpctl: ckpt: path_escapes: '__1_0.distcp\x00.png'
    """
    named(c, "__1_0.distcp\0.png")


@case("path_escapes")
def an_empty_name(c):
    """
    dcpctl: ckpt: path_escapes: ''
    """
    named(c, "")


@case("over_limit", *BOTH)
def a_name_of_5000_bytes(c):
    """
    dcpctl: ckpt/.metadata @ 0x1ca3: tensor 'model.w': over_limit (got a file name of 5000 bytes, expected at most 4096)
    """
    named(c, "x" * 5000)


@case("file_missing")
def a_name_of_300_bytes(c):
    """
    dcpctl: ckpt/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx @ 0x0: tensor 'model.w': file_missing: chunk [2:4, 0:3]
    hint: its own
    """
    named(c, "x" * 300)


@case("file_missing")
def a_name_with_terminal_codes(c):
    r"""
    dcpctl: ckpt/\x1b[2J\u{202e}__1_0.distcp\x0d\x0a @ 0x0: tensor 'model.w': file_missing: chunk [2:4, 0:3]
    hint: its own
    """
    named(c, "\x1b[2J\u202e__1_0.distcp\r\n")


@case("file_missing", "inspect ckpt", exit=1, says="findings")
def a_name_with_terminal_codes_in_a_finding(c):
    r"""
    damage: ckpt/\x1b[2J\u{202e}__1_0.distcp\x0d\x0a: file_missing
    warning: ckpt/__1_0.distcp: orphan_file: rank 1, and the metadata names files of ranks up to 0
    """
    named(c, "\x1b[2J\u202e__1_0.distcp\r\n")


@case("path_escapes", "inspect ckpt", exit=1, says="findings")
def a_name_with_dots_in_a_finding(c):
    """
    damage: ckpt: path_escapes: '../ckpt/__1_0.distcp'
    warning: ckpt/__1_0.distcp: orphan_file
    """
    named(c, "../ckpt/__1_0.distcp")


# ---- kinds of files


@case("link_refused")
def a_link_to_a_file_outside(c):
    """
    dcpctl: ckpt/__1_0.distcp: link_refused
    hint: its own
    """
    c.write()
    (c.folder / "__1_0.distcp").rename(c.folder.parent / "elsewhere")
    (c.folder / "__1_0.distcp").symlink_to("../elsewhere")


@case(None, "consolidate ckpt out.pt -q --follow-links", exit=0, creates=["out.pt"])
def a_link_that_is_allowed(c):
    """
    """
    a_link_to_a_file_outside(c)


@case("link_refused")
def a_folder_that_is_a_link(c):
    """
    dcpctl: ckpt/sub/__1_0.distcp: link_refused
    hint: its own
    """
    named(c, "sub/__1_0.distcp")
    (c.folder / "sub").symlink_to("..")


@case("link_refused")
def a_link_to_itself(c):
    """
    dcpctl: ckpt/__1_0.distcp: link_refused
    hint: its own
    """
    c.write()
    (c.folder / "__1_0.distcp").unlink()
    (c.folder / "__1_0.distcp").symlink_to("__1_0.distcp")


@case("link_refused", "inspect ckpt", exit=1, says="findings")
def a_link_in_a_finding(c):
    """
    damage: ckpt/__1_0.distcp: link_refused
    """
    a_link_to_a_file_outside(c)


@case("io_open", "inspect ckpt", exit=4, says="findings", user="nobody")
def a_data_file_without_permission(c):
    """
    error: ckpt/__1_0.distcp: io_open: permission denied
    """
    c.write()
    (c.folder / "__1_0.distcp").chmod(0)


@case("lfs_pointer", "consolidate ckpt out.pt")
def a_git_lfs_pointer_for_a_data_file(c):
    """
    dcpctl: ckpt/__1_0.distcp: lfs_pointer
    hint: its own
    """
    c.write()
    (c.folder / "__1_0.distcp").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1234\n")


@case("lfs_pointer", "inspect ckpt", exit=1, says="findings")
def a_git_lfs_pointer_in_a_finding(c):
    """
    damage: ckpt/__1_0.distcp: lfs_pointer
    """
    a_git_lfs_pointer_for_a_data_file(c)


@case(None, "consolidate ckpt out.pt -q --key model.b", exit=0, creates=["out.pt"])
def a_pipe_in_which_nothing_lies_that_is_wanted(c):
    """
    """
    a_pipe_for_a_data_file(c)


@case("not_regular", "inspect ckpt", exit=1, says="findings")
def a_pipe_in_a_finding(c):
    """
    damage: ckpt/__1_0.distcp: not_regular: a FIFO
    """
    a_pipe_for_a_data_file(c)


@case("not_regular")
def a_pipe_for_a_data_file(c):
    """
    dcpctl: ckpt/__1_0.distcp: not_regular: a FIFO
    """
    c.write()
    (c.folder / "__1_0.distcp").unlink()
    os.mkfifo(c.folder / "__1_0.distcp")


@case("not_regular")
def a_folder_for_a_data_file(c):
    """
    dcpctl: ckpt/__1_0.distcp: not_regular: a folder
    """
    c.write()
    (c.folder / "__1_0.distcp").unlink()
    (c.folder / "__1_0.distcp").mkdir()


@case("not_regular")
def a_pipe_for_the_metadata(c):
    """
    dcpctl: ckpt/.metadata: not_regular: a FIFO
    """
    c.write()
    (c.folder / ".metadata").unlink()
    os.mkfifo(c.folder / ".metadata")


@case("not_regular")
def a_folder_for_the_metadata(c):
    """
    dcpctl: ckpt/.metadata: not_regular: a folder
    """
    c.write()
    (c.folder / ".metadata").unlink()
    (c.folder / ".metadata").mkdir()


@case("not_regular", "inspect dev/.metadata")
def a_device_for_the_metadata(c):
    """
    dcpctl: dev/.metadata: not_regular: a device
    """
    (c.folder.parent / "dev").mkdir()
    (c.folder.parent / "dev/.metadata").symlink_to("/dev/zero")


@case("link_refused", "inspect ckpt", "verify ckpt", "consolidate ckpt out.pt")
def a_link_out_of_the_checkpoint_for_the_metadata(c):
    """
    dcpctl: ckpt/.metadata: link_refused
    hint: its own
    """
    c.write()
    (c.folder / ".metadata").rename(c.folder.parent / "elsewhere")
    (c.folder / ".metadata").symlink_to("../elsewhere")


@case("link_refused", "consolidate ckpt out --max-shard-size 1MB --assets base")
def a_link_out_of_the_folder_for_an_asset(c):
    """
    dcpctl: warning: base lacks config.json, without which the model does not load
    dcpctl: base/tokenizer.json: link_refused
    hint: its own
    """
    (c.folder.parent / "secret").write_text("not to be copied")
    (c.folder.parent / "base").mkdir()
    (c.folder.parent / "base/tokenizer.json").symlink_to("../secret")


# ---- what is not there


@case("store_unknown", "inspect az://bucket/x", "list az://bucket/x", "consolidate az://bucket/x out.pt", "consolidate ckpt az://bucket/x", exit=2)
def a_path_of_no_store(c):
    """
    dcpctl: az://bucket/x: store_unknown (got az://, expected gs:// or hf:// or http:// or https:// or s3:// or a path on disk)
    hint: its own
    """


@case("net_address", "inspect s3://", "list s3://", "consolidate s3:// out.pt", exit=2)
def a_store_without_a_bucket(c):
    """
    dcpctl: s3://: net_address (got no bucket, expected s3://BUCKET/KEY)
    """


@case("net_insecure", "inspect http://example.invalid/x", "verify http://example.invalid/x", exit=2)
def plain_http_to_another_machine(c):
    """
    dcpctl: http://example.invalid/x: net_insecure (http://example.invalid)
    hint: its own
    """


@case("no_such_path", "inspect nowhere", "consolidate nowhere out.pt")
def no_such_folder(c):
    """
    dcpctl: nowhere: no_such_path
    """


@case("not_checkpoint", *BOTH)
def an_empty_folder(c):
    """
    dcpctl: ckpt: not_checkpoint (got an empty folder, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    """
    c.write()
    shutil.rmtree(c.folder)
    c.folder.mkdir()


@case("not_checkpoint", *BOTH)
def a_save_that_did_not_finish(c):
    """
    dcpctl: ckpt: unfinished: .metadata.tmp but no .metadata
    hint: the save did not finish: 'dcpctl list . --latest' prints the newest step that did
    """
    c.write()
    (c.folder / ".metadata").rename(c.folder / ".metadata.tmp")


@case("not_checkpoint", "inspect .", "consolidate . out.pt")
def a_folder_of_checkpoints(c):
    """
    dcpctl: .: not_checkpoint (got a folder of checkpoints, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    hint: give one of them: ./ckpt, ./other
    """
    c.write()
    shutil.copytree(c.folder, c.folder.parent / "other")


@case("not_checkpoint", "consolidate ckpt/__0_0.distcp out.pt")
def a_data_file_instead_of_the_folder(c):
    """
    dcpctl: ckpt/__0_0.distcp: not_checkpoint (got a data file of a DCP checkpoint, expected the folder that it is in)
    hint: give 'ckpt'
    """


@case("file_missing")
def a_missing_data_file(c):
    """
    dcpctl: ckpt/__1_0.distcp @ 0x0: tensor 'model.w': file_missing: chunk [2:4, 0:3]
    hint: its own
    """
    c.write()
    (c.folder / "__1_0.distcp").unlink()


@case("file_missing", "inspect ckpt", exit=1, says="findings")
def a_missing_data_file_is_a_finding(c):
    """
    damage: ckpt/__1_0.distcp: file_missing
    """
    a_missing_data_file(c)


@case("item_past_end")
def a_data_file_cut_by_one_byte(c):
    """
    dcpctl: ckpt/__1_0.distcp @ 0x0: tensor 'model.w': item_past_end (got a file of 781 bytes, expected at least 782)
    hint: the file was cut short: restore it from the original; 'dcpctl verify ckpt' says what of it is whole
    """
    c.write()
    os.truncate(c.folder / "__1_0.distcp", (c.folder / "__1_0.distcp").stat().st_size - 1)


@case("item_past_end", "inspect ckpt", exit=1, says="findings")
def a_data_file_cut_by_one_byte_is_a_finding(c):
    """
    damage: ckpt/__1_0.distcp: item_past_end (got a file of 781 bytes, expected at least 782)
    """
    a_data_file_cut_by_one_byte(c)


@case("item_past_end")
def an_empty_data_file(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': item_past_end (got a file of 0 bytes, expected at least 782)
    hint: the file was cut short: restore it from the original; 'dcpctl verify ckpt' says what of it is whole
    """
    c.write()
    os.truncate(c.folder / "__0_0.distcp", 0)


# ---- damaged bytes


def flip(c, position, file="__1_0.distcp"):
    c.write()
    data = bytearray((c.folder / file).read_bytes())
    data[position] ^= 0x01
    (c.folder / file).write_bytes(data)


PAYLOAD = 384  # of data/0 in `model.w`


@case("crc_mismatch")
def a_flipped_payload_byte(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: ckpt/__1_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 2379c31c over 24 bytes, expected CRC-32 f49b4344)
    hint: its own
    """
    flip(c, PAYLOAD + 5)


@case("crc_mismatch", "consolidate ckpt out.safetensors --model-only")
def a_flipped_payload_byte_on_the_way_to_safetensors(c):
    """
    dcpctl: kept 2 model keys; left out 1 non-model key under step
    dcpctl: stripped the root 'model'
    dcpctl: ckpt/__1_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 2379c31c over 24 bytes, expected CRC-32 f49b4344)
    hint: its own
    """
    flip(c, PAYLOAD + 5)


@case("crc_mismatch", "consolidate ckpt out --max-shard-size 1MB --model-only")
def a_flipped_payload_byte_on_the_way_to_a_folder(c):
    """
    dcpctl: kept 2 model keys; left out 1 non-model key under step
    dcpctl: stripped the root 'model'
    dcpctl: ckpt/__1_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 2379c31c over 24 bytes, expected CRC-32 f49b4344)
    hint: its own
    """
    flip(c, PAYLOAD + 5)


@case("crc_mismatch", "consolidate ckpt out.pt --force")
def a_flipped_payload_byte_and_force_leaves_the_old_output(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: ckpt/__1_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 2379c31c over 24 bytes, expected CRC-32 f49b4344)
    hint: its own
    """
    flip(c, PAYLOAD + 5)
    (c.folder.parent / "out.pt").write_text("the old output")


@case("crc_mismatch")
def two_flipped_payload_bytes_are_both_named(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: ckpt/__1_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 75be2663 over 24 bytes, expected CRC-32 f49b4344)
    dcpctl: ckpt/__0_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 982a1546 over 24 bytes, expected CRC-32 91e79017)
    hint: its own
    """
    flip(c, PAYLOAD)
    data = bytearray((c.folder / "__0_0.distcp").read_bytes())
    data[PAYLOAD] ^= 0xFF
    (c.folder / "__0_0.distcp").write_bytes(data)


@case(None, "consolidate ckpt out.pt --no-verify -q", exit=0, creates=["out.pt"])
def a_flipped_payload_byte_that_nobody_looks_at(c):
    """
    """
    flip(c, PAYLOAD + 5)


@case("item_not_archive")
def a_flipped_byte_of_a_header(c):
    r"""
    dcpctl: ckpt/__1_0.distcp @ 0x0: tensor 'model.w': item_not_archive (got text 'QK\x03\x04' at its begin, expected 'PK\x03\x04')
    """
    flip(c, 0)
