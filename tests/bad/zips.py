"""The archive of one item: end records, directory, local headers."""
import struct

from recipes import Record, case

COMMANDS = ["consolidate ckpt out.pt"]


def broken(c):
    """The archive that the cases break."""
    return c.item("model.w").data


@case("zip_no_end")
def no_archive_at_all(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': is not a zip archive: it has no end record
    """
    c.item("model.w").data = bytes(1000)


@case("zip_no_end")
def an_empty_item(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': is not a zip archive: it has no end record
    """
    c.item("model.w").data = b""


@case("zip_no_end")
def an_end_record_cut_short(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': is not a zip archive: it has no end record
    """
    c.item("model.w").data = broken(c).bytes()[:-1]


@case("zip_bad_end")
def an_archive_in_several_parts(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': the end record of the archive is wrong (got an archive in several parts)
    """
    broken(c).end["disk"] = 1


@case("zip_bad_end")
def a_directory_past_the_end(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': the end record of the archive is wrong (got 246 bytes of directory at 1073741824, expected at most 760 bytes before it)
    """
    broken(c).end["at"] = 1 << 30


@case("zip_bad_end")
def a_directory_longer_than_the_archive(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': the end record of the archive is wrong (got 1048576 bytes of directory at 514, expected at most 760 bytes before it)
    """
    broken(c).end["bytes"] = 1 << 20


@case("zip_bad_end")
def two_counts_of_records(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': the end record of the archive is wrong (got 3, expected 4)
    """
    broken(c).end["here"] = 3


@case("zip_bad_end")
def zip64_record_outside_the_slice(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x330: tensor 'model.w': the end record of the archive is wrong (got a zip64 end record at 1099511627776)
    """
    broken(c).end64 = {"end64_at": 1 << 40}


@case("zip_bad_end")
def zip64_record_that_is_none(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': the end record of the archive is wrong (got no zip64 end record)
    """
    broken(c).end64 = {"mark": b"PK\0\0"}


@case("zip_bad_end")
def zip64_record_that_contradicts_the_end_record(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': the end record of the archive is wrong (got 514, expected 64)
    """
    broken(c).end64 = {"at": 64}


@case("zip_bad_end")
def zip64_directory_of_exabytes(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x344: tensor 'model.w': the end record of the archive is wrong (got 246 bytes of directory at 18446744073709551600, expected at most 760 bytes before it)
    """
    broken(c).end.update(at=0xFFFFFFFF)
    broken(c).end64 = {"at": (1 << 64) - 16}


@case("over_limit")
def zip64_directory_bytes_of_exabytes(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x344: tensor 'model.w': a number in the file is over the limit (got 18446744073709551615 bytes of directory, expected at most 268435456)
    """
    broken(c).end.update(bytes=0xFFFFFFFF)
    broken(c).end64 = {"bytes": (1 << 64) - 1}


@case("over_limit")
def zip64_count_of_records(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x344: tensor 'model.w': a number in the file is over the limit (got 1099511627776 records, expected at most 1048576)
    """
    broken(c).end.update(entries=0xFFFF, here=0xFFFF)
    broken(c).end64 = {"entries": 1 << 40, "here": 1 << 40}


@case("zip_bad_directory")
def more_records_than_the_directory_holds(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2f8: tensor 'model.w': the directory of the archive is wrong (got 1000 records in 246 bytes)
    """
    broken(c).end.update(entries=1000, here=1000)


@case("zip_bad_directory")
def fewer_records_than_the_directory_holds(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x202: tensor 'model.w': the directory of the archive is wrong (got 2 records in 125 bytes, expected 246 bytes)
    """
    broken(c).end.update(entries=2, here=2)


@case("zip_bad_directory")
def a_directory_that_begins_in_the_middle_of_an_entry(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x206: tensor 'model.w': the directory of the archive is wrong (got no entry, expected an entry)
    """
    at = broken(c).bytes().index(b"PK\1\2")
    broken(c).end["at"] = at + 4
    broken(c).end["bytes"] = 200


@case("zip_bad_directory")
def an_extra_field_longer_than_its_entry(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x27f: tensor 'model.w': the directory of the archive is wrong (got a malformed extra field)
    """
    broken(c)["data/0"].extra = b"\1\0\xff\xff"


@case("zip_bad_directory")
def a_zip64_field_that_is_not_there(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x27f: tensor 'model.w': the directory of the archive is wrong (got 24 bytes stored, expected 4294967295)
    """
    broken(c)["data/0"].size = 0xFFFFFFFF


@case("zip_bad_directory")
def two_sizes_of_a_stored_record(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x27f: tensor 'model.w': the directory of the archive is wrong (got 24 bytes stored, expected 4000)
    """
    broken(c)["data/0"].size = 4000


@case("zip_outside")
def a_zip64_size_of_exabytes(c):
    """
    dcpctl: ckpt/__0_0.distcp > version @ 0x198: tensor 'model.w': a record reaches into the archive's directory or beyond (got 18446744073709551615 bytes, expected an end before 514)
    """
    record = broken(c)["version"]
    record.size = record.packed = 0xFFFFFFFF
    record.extra = b"\1\0\x10\0" + struct.pack("<QQ", (1 << 64) - 1, (1 << 64) - 1)


@case("zip_outside")
def a_record_that_begins_past_the_slice(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x186a0: tensor 'model.w': a record reaches into the archive's directory or beyond (got 24 bytes, expected an end before 514)
    """
    broken(c)["data/0"].at = 100000


@case("zip_outside")
def the_last_record_reaches_into_the_directory(c):
    """
    dcpctl: ckpt/__0_0.distcp > version @ 0x198: tensor 'model.w': a record reaches into the archive's directory or beyond (got 100 bytes, expected an end before 514)
    """
    record = broken(c)["version"]
    record.size = record.packed = 100


@case("zip_overlap")
def a_record_reaches_into_the_next(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': a record of the archive overlaps the next one (got 200 bytes, expected an end before 408)
    """
    record = broken(c)["data/0"]
    record.size = record.packed = 200


@case("zip_overlap")
def two_records_in_one_place(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x0: tensor 'model.w': a record of the archive overlaps the next one (got 151 bytes, expected an end before 0)
    """
    broken(c)["version"].at = 0


@case("zip_overlap")
def a_local_extra_field_into_the_next_record(c):
    """
    dcpctl: ckpt/__0_0.distcp > byteorder @ 0xd7: tensor 'model.w': a record of the archive overlaps the next one (got 6 bytes at 517, expected an end before 268)
    """
    broken(c)["byteorder"].local["extra"] = b""
    c.item("model.w").data = broken(c).bytes().replace(b"\0\0archive/byteorder", b"\xff\0archive/byteorder", 1)


@case("zip_bad_local")
def the_local_name_is_another(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': a record's own header contradicts the archive's directory (got the name archive/data/1, expected archive/data/0)
    """
    broken(c)["data/0"].local["name"] = "archive/data/1"


@case("zip_bad_local")
def the_local_name_has_another_root(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': a record's own header contradicts the archive's directory (got the name brchive/data/0, expected archive/data/0)
    """
    broken(c)["data/0"].local["name"] = "brchive/data/0"


@case("zip_bad_local")
def no_local_header_there(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x0: tensor 'model.w': a record's own header contradicts the archive's directory (got no local header)
    """
    c.item("model.w").data = broken(c).bytes().replace(b"PK\3\4", b"PK\0\0", 1)


@case("zip_bad_local")
def compressed_by_its_local_header_only(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': a record's own header contradicts the archive's directory (got method 8)
    """
    broken(c)["data/0"].local["method"] = 8


@case("zip_duplicate")
def two_records_of_one_name(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': two records of the archive have one name (got data/0)
    """
    broken(c).records.append(Record("data/0", bytes(24)))


@case("zip_encrypted")
def an_encrypted_record(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x27f: tensor 'model.w': a record of the archive is encrypted
    """
    broken(c)["data/0"].flags = 1


@case("zip_encrypted")
def encrypted_by_its_local_header_only(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': a record of the archive is encrypted
    """
    broken(c)["data/0"].local["flags"] = 1


@case("zip_no_root")
def records_in_no_folder(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x202: tensor 'model.w': a record of the archive is not in the archive's folder (got data.pkl)
    """
    broken(c).root = ""


@case("zip_no_root")
def records_in_two_folders(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x2bb: tensor 'model.w': a record of the archive is not in the archive's folder (got ARCHIVE/version, expected archive/...)
    """
    c.item("model.w").data = broken(c).bytes().replace(b"archive/version", b"ARCHIVE/version")


@case("item_compressed")
def a_compressed_record(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x146: tensor 'model.w': a record of the item is compressed, which torch.save never does
    """
    broken(c)["data/0"].method = 8


@case("item_compressed")
def a_compressed_pickle(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x0: tensor 'model.w': a record of the item is compressed, which torch.save never does
    """
    broken(c)["data.pkl"].method = 8
