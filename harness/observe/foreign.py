"""Signatures of other programs that zonelab recognises without the host's libblkid.

The libblkid of an older distribution lacks some of them. The offsets come from the formats
themselves and from libblkid's probes (util-linux, libblkid/src). Magic numbers shorter than four
bytes are left to libblkid, which also checks their surroundings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from harness.observe.signatures import KIB, MIB, Probe, Read, Signature, find

_MD = b"\xfc\x4e\x2b\xa9"
_PAGES = (4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB)
_SWAP = (b"SWAPSPACE2", b"SWAP-SPACE")
_SUSPENDED = (b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001")
_UBERBLOCK = (struct.pack("<Q", 0x00BAB10C), struct.pack(">Q", 0x00BAB10C))
_DRBD = tuple(struct.pack(">I", 0x83740267 + version) for version in (4, 5, 6))
_STRATIS = b"!Stra0tis\x86\xff\x02^\x41rh"
_NILFS = b"\x02\0\0\0\0\0\x34\x34"  # revision 2.0, then the magic number
_UFS = (struct.pack("<I", 0x00011954), struct.pack("<I", 0x19540119))
_LABEL = 256 * KIB  # size of each of ZFS' four labels
# File systems have the boot-sector mark too, so it counts only if no other signature is found.
_BOOT_SECTOR = Probe("mbr", 510, b"\x55\xaa")


def signatures(
    read: Read, zone_size: int | None, own: tuple[Probe, ...], size: int
) -> list[Signature]:
    """Return the signatures of a device: of the levels (``own``) and of other programs."""
    return find(read, zone_size, (*own, *PROBES), size) or find(read, None, (_BOOT_SECTOR,))


def _zfs() -> Iterator[Probe]:
    """Each label has 128 KiB of uberblocks; their size depends on the block size of the pool."""
    for magic in _UBERBLOCK:
        for label in (0, _LABEL):
            yield Probe("zfs", label + 128 * KIB, magic, count=128, step=KIB)
            back = 2 * _LABEL - label
            yield Probe("zfs", 128 * KIB, magic, count=128, step=KIB, back=back, align=_LABEL)


PROBES = (
    # volume managers, RAID, encryption
    Probe("lvm2", 0, b"LABELONE", count=4, step=512),
    Probe("luks", 0, b"LUKS\xba\xbe"),
    *(Probe("luks", 16 * KIB << power, b"SKUL\xba\xbe") for power in range(8)),  # second header
    Probe("bitlocker", 3, b"-FVE-FS-"),
    Probe("md", 0, _MD),
    Probe("md", 4 * KIB, _MD),
    Probe("md", 0, _MD, back=8 * KIB, align=4 * KIB),  # metadata 1.0
    Probe("md", 0, _MD, back=64 * KIB, align=64 * KIB),  # metadata 0.90
    Probe("md", 0, _MD[::-1], back=64 * KIB, align=64 * KIB),
    Probe("imsm", 0, b"Intel Raid ISM Cfg Sig. ", back=KIB, align=512),
    Probe("ddf", 0, b"\xde\x11\xde\x11", back=512, align=512),
    *(Probe("drbd", 60, magic, back=4 * KIB, align=4 * KIB) for magic in _DRBD),
    Probe("dm-integrity", 0, b"integrt\0"),
    Probe("dm-verity", 0, b"verity\0\0"),
    Probe("dm-snapshot", 0, b"SnAp"),
    Probe("dm-thin", 32, struct.pack("<Q", 27022010)),
    Probe("dm-cache", 32, struct.pack("<Q", 6142003)),
    Probe("vdo", 0, b"dmvdo001"),
    Probe("stratis", 512 + 4, _STRATIS),
    Probe("stratis", 512 * 9 + 4, _STRATIS),
    Probe("bcache", 0x1018, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    Probe("bcachefs", 0x1018, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9"),
    Probe("bluestore", 0, b"bluestore block device"),
    Probe("oracle-asm", 32, b"ORCLDISK"),
    Probe("vmfs", MIB, b"\x0d\xd0\x01\xc0"),
    Probe("vmfs", 2 * MIB, b"\x5e\xf1\xab\x2f"),
    *_zfs(),
    # partition tables; a GPT has a copy at the end
    Probe("gpt", 512, b"EFI PART"),
    Probe("gpt", 4 * KIB, b"EFI PART"),
    Probe("gpt", 0, b"EFI PART", back=512, align=512),
    Probe("gpt", 0, b"EFI PART", back=4 * KIB, align=4 * KIB),
    # swap, by page size
    *(Probe("swap", page - 10, magic) for page in _PAGES for magic in _SWAP),
    *(Probe("suspended system", page - 10, magic) for page in _PAGES for magic in _SUSPENDED),
    # file systems
    Probe("reiserfs", 64 * KIB + 0x34, b"ReIsEr"),
    Probe("reiserfs", 8 * KIB + 0x34, b"ReIsErFs"),
    Probe("reiserfs", 8 * KIB + 20, b"ReIsErFs"),
    Probe("reiser4", 64 * KIB, b"ReIsEr4"),
    Probe("jfs", 32 * KIB, b"JFS1"),
    Probe("nilfs2", KIB, _NILFS),
    Probe("nilfs2", 0, _NILFS, back=4 * KIB, align=512),
    Probe("gfs", 64 * KIB, b"\x01\x16\x19\x70"),
    *(Probe("ocfs2", KIB << power, b"OCFSV2") for power in range(4)),
    Probe("ocfs", 8 * KIB, b"OracleCFS"),
    Probe("hfsplus", KIB, b"H+\0\x04"),
    Probe("hfsplus", KIB, b"HX\0\x05"),
    Probe("apfs", 32, b"NXSB"),
    *(Probe("ufs", place * KIB + 1372, magic) for place in (8, 64, 256) for magic in _UFS),
    Probe("iso9660", 32 * KIB + 1, b"CD001"),
    Probe("udf", 32 * KIB + 1, b"BEA01"),
    Probe("squashfs", 0, b"hsqs"),
    Probe("squashfs", 0, b"sqsh"),
    Probe("erofs", KIB, b"\xe2\xe1\xf5\xe0"),
    Probe("cramfs", 0, b"\x45\x3d\xcd\x28"),
    Probe("romfs", 0, b"-rom1fs-"),
    Probe("zonefs", 0, b"SFOZ"),
    Probe("ntfs", 3, b"NTFS    "),
    Probe("exfat", 3, b"EXFAT   "),
    Probe("refs", 3, b"ReFS\0\0\0\0"),
    Probe("fat", 0x52, b"FAT32   "),
    Probe("fat", 0x36, b"FAT16   "),
    Probe("fat", 0x36, b"FAT12   "),
    Probe("mpool", 0, b"mpoolDev"),
)
