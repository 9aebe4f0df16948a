"""Names in an index that lead elsewhere, and what is no file where a file belongs."""
import json
import os
import socket
import struct

from recipes import case

BOTH = ["inspect ckpt", "consolidate ckpt out.pt"]
COMMANDS = BOTH
FILE = struct.pack("<Q", 61) + b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'.ljust(61) + bytes(8)


def index(c, name):
    c.written = True
    c.folder.mkdir()
    (c.folder / "model.safetensors").write_bytes(FILE)
    (c.folder.parent / "outside.safetensors").write_bytes(FILE)
    (c.folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": name}}))


@case("path_escapes")
def an_index_with_an_absolute_name(c):
    """
    dcpctl: ckpt: path_escapes (got '/etc/passwd')
    """
    index(c, "/etc/passwd")


@case("path_escapes")
def an_index_with_a_nul(c):
    r"""
    dcpctl: ckpt: path_escapes (got 'model.safetensors\x00.png')
    """
    index(c, "model.safetensors\0.png")


@case("path_escapes")
def an_index_with_an_empty_name(c):
    """
    dcpctl: ckpt: path_escapes (got '')
    """
    index(c, "")


@case("path_escapes")
def an_index_with_dots_inside(c):
    """
    dcpctl: ckpt: path_escapes (got 'sub/../../outside.safetensors')
    """
    index(c, "sub/../../outside.safetensors")


@case("path_escapes")
def an_index_with_a_name_of_5000_bytes(c):
    """
    dcpctl: ckpt: path_escapes (got a name of 5000 bytes, expected at most 4096 bytes)
    """
    index(c, "x" * 5000)


@case("link_refused", "consolidate ckpt out.pt")
def an_index_that_names_a_link_out_of_the_folder(c):
    """
    dcpctl: ckpt/link.safetensors: link_refused
    hint: its own
    """
    index(c, "link.safetensors")
    (c.folder / "link.safetensors").symlink_to("../outside.safetensors")


@case("link_refused", "consolidate ckpt out.pt")
def an_index_that_names_a_link_to_a_device(c):
    """
    dcpctl: ckpt/link.safetensors: link_refused
    hint: its own
    """
    index(c, "link.safetensors")
    (c.folder / "link.safetensors").symlink_to("/dev/zero")


@case("not_regular", "consolidate ckpt out.pt")
def an_index_that_names_a_pipe(c):
    """
    dcpctl: ckpt/pipe.safetensors: not_regular (got a FIFO)
    """
    index(c, "pipe.safetensors")
    os.mkfifo(c.folder / "pipe.safetensors")


@case("not_regular")
def an_index_that_is_a_pipe(c):
    """
    dcpctl: ckpt/model.safetensors.index.json: not_regular (got a FIFO)
    """
    index(c, "model.safetensors")
    (c.folder / "model.safetensors.index.json").unlink()
    os.mkfifo(c.folder / "model.safetensors.index.json")


@case("not_regular", "consolidate ckpt out.pt")
def a_socket_for_a_data_file(c):
    """
    dcpctl: ckpt/__1_0.distcp: not_regular (got a socket)
    """
    c.write()
    (c.folder / "__1_0.distcp").unlink()
    here = os.open(c.folder, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as made:  # by a short name: a socket's has 107 bytes at most
        made.bind(f"/proc/self/fd/{here}/__1_0.distcp")
    os.close(here)


@case("link_refused", "consolidate ckpt out.pt")
def a_link_to_a_device_for_a_data_file(c):
    """
    dcpctl: ckpt/__1_0.distcp: link_refused
    hint: its own
    """
    c.write()
    (c.folder / "__1_0.distcp").unlink()
    (c.folder / "__1_0.distcp").symlink_to("/dev/zero")


@case("not_checkpoint", "inspect /dev/zero", "verify /dev/zero", "consolidate /dev/zero out.pt")
def a_device_for_a_checkpoint(c):
    """
    dcpctl: /dev/zero: not_checkpoint (got no regular file, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    """
    pass


@case("not_regular", "verify ckpt --against /dev/zero")
def a_device_for_a_manifest(c):
    """
    dcpctl: /dev/zero: not_regular (got a device)
    """
    pass


@case("not_regular", "consolidate ckpt out.pt --rename-map /dev/zero")
def a_device_for_a_map_of_names(c):
    """
    dcpctl: /dev/zero: not_regular (got a device)
    """
    pass
