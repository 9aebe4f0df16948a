"""Wrong command lines."""
from recipes import case


def wrong(problem, *commands):
    return case(problem, *commands, exit=2)


@wrong("usage", "")
def no_command(c):
    """
    dcpctl: a command is missing
    hint: see 'dcpctl --help'
    """


@wrong("usage", "inspekt ckpt")
def an_unknown_command(c):
    """
    dcpctl: 'inspekt' is not a command of dcpctl
    hint: did you mean inspect?
    """


@wrong("usage", "transmogrify ckpt")
def an_unknown_command_like_no_other(c):
    """
    dcpctl: 'transmogrify' is not a command of dcpctl
    hint: see 'dcpctl --help'
    """


@wrong("usage", "consolidate ckpt out.pt --modell-only")
def an_unknown_option(c):
    """
    dcpctl: unknown option '--modell-only'
    hint: did you mean --model-only?
    """


@wrong("usage", "consolidate ckpt out.pt --frobnicate=7")
def an_unknown_option_like_no_other(c):
    """
    dcpctl: unknown option '--frobnicate'
    hint: see 'dcpctl consolidate --help'
    """


@wrong("usage", "consolidate ckpt")
def no_output(c):
    """
    dcpctl: OUT is missing
    hint: see 'dcpctl consolidate --help'
    """


@wrong("usage", "inspect ckpt ckpt")
def an_argument_too_many(c):
    """
    dcpctl: one argument too many: 'ckpt'
    hint: see 'dcpctl inspect --help'
    """


@wrong("usage", "consolidate ckpt out.zip")
def an_unknown_ending(c):
    """
    dcpctl: out.zip: the command line is wrong (got '.zip', expected OUT.pt, .pth or .bin, OUT.safetensors, or a folder with --max-shard-size SIZE)
    """


@wrong("usage", "consolidate ckpt out")
def no_ending(c):
    """
    dcpctl: out: the command line is wrong (got no ending, expected OUT.pt, .pth or .bin, OUT.safetensors, or a folder with --max-shard-size SIZE)
    """


@wrong("usage", "consolidate ckpt out.pt --max-shard-size 1MB")
def a_file_where_a_folder_is_written(c):
    """
    dcpctl: out.pt: the command line is wrong (got a file name together with --max-shard-size, expected a folder name)
    """


@wrong("usage", "consolidate ckpt out.pt --max-memory 12XB")
def a_size_with_an_unknown_unit(c):
    """
    dcpctl: the command line is wrong (got size '12XB', expected a number with B, k, KiB, MB, MiB, GB or GiB)
    """


@wrong("usage", "consolidate ckpt out.pt --max-memory 99999999999999GiB")
def a_size_that_overflows(c):
    """
    dcpctl: the command line is wrong (got size '99999999999999GiB', expected a number with B, k, KiB, MB, MiB, GB or GiB)
    """


@wrong("usage", "consolidate ckpt out.pt -j 0")
def no_threads(c):
    """
    dcpctl: --threads: Value 0 not in range 1 to 1024
    hint: see 'dcpctl consolidate --help'
    """


@wrong("usage", "inspect ckpt --keys --chunks")
def two_views_at_once(c):
    """
    dcpctl: --keys excludes --chunks
    hint: see 'dcpctl inspect --help'
    """


@wrong("key_missing", "consolidate ckpt out.pt --key model.q", "inspect ckpt --key model.q")
def a_key_that_is_not_there(c):
    """
    dcpctl: ckpt: no such key (got model.q)
    hint: see the keys with 'dcpctl inspect CKPT --keys'
    """


@wrong("root_missing", "consolidate ckpt out.pt --root modell")
def a_root_that_is_not_there(c):
    """
    dcpctl: ckpt: no key lies under this root (got modell)
    hint: see the keys with 'dcpctl inspect CKPT --keys'
    """


@wrong("nothing_selected", "consolidate ckpt out.pt --exclude *", "inspect ckpt --include nothing.*")
def nothing_is_left(c):
    """
    dcpctl: ckpt: no key is left after selection
    hint: see the keys with 'dcpctl inspect CKPT --keys'
    """
