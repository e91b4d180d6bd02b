"""Images of file systems whose superblocks somebody has damaged on purpose: what a tenant can hand to the kernel that mounts them.

A seed gives the same damage to the same superblock. The checksum of a damaged superblock is right again in most images, because a kernel stops reading
at a wrong one."""
import random
import struct
import subprocess

KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20
# By type: the arguments of mkfs, the image's size, where the superblock is, and how long it is.
KINDS = {
    "ext4": (["-q", "-F"], 16 * MEBIBYTE, KIBIBYTE, KIBIBYTE),
    "xfs": (["-q", "-f"], 300 * MEBIBYTE, 0, 512),  # the smallest that mkfs.xfs makes
    "btrfs": (["-q", "-f", "--mixed"], 64 * MEBIBYTE, 64 * KIBIBYTE, 4 * KIBIBYTE),
}
MAGICS = {"ext4": (0x38, b"\x53\xef"), "xfs": (0, b"XFSB"), "btrfs": (0x40, b"_BHRfS_M")}
EXTREMES = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]


def _crc32c_table():
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        yield value


_TABLE = list(_crc32c_table())


def crc32c(data):
    """Gives the checksum as RFC 3720 has it."""
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def with_checksum(fs_type, block):
    """Gives the superblock with the checksum that belongs to its content."""
    block = bytearray(block)
    if fs_type == "ext4":
        struct.pack_into("<I", block, 0x3FC, crc32c(block[:0x3FC]) ^ 0xFFFFFFFF)
    elif fs_type == "xfs":
        struct.pack_into("<I", block, 0xE0, 0)
        struct.pack_into("<I", block, 0xE0, crc32c(block))
    else:
        block[:32] = struct.pack("<I", crc32c(block[32:])) + bytes(28)
    return bytes(block)


def damage(fs_type, block, seed):
    """Gives the superblock with one to eight damaged places. The magic number stays, without which no kernel reads on."""
    chance = random.Random(f"{fs_type}-{seed}")
    damaged = bytearray(block)
    used = [offset for offset, byte in enumerate(block) if byte]  # most fields that are 0 say nothing
    places = chance.randint(1, 8)
    while places > 0 or damaged == block:
        places -= 1
        offset = chance.choice(used)
        width = chance.choice([1, 2, 4])
        offset -= offset % width
        value = chance.choice([*EXTREMES, chance.getrandbits(32)])
        damaged[offset:offset + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, chance.choice(["little", "big"]))
        start, magic = MAGICS[fs_type]
        damaged[start:start + len(magic)] = magic
    return bytes(damaged) if chance.random() < 0.1 else with_checksum(fs_type, damaged)


class Corpus:
    """Damaged images in a folder, which are made one at a time."""

    def __init__(self, folder):
        self.folder = folder
        self._whole = {}

    def whole(self, fs_type):
        """Gives the image of this type that is not damaged."""
        if fs_type not in self._whole:
            arguments, size, _, _ = KINDS[fs_type]
            path = self.folder / f"whole.{fs_type}"
            with open(path, "wb") as image:
                image.truncate(size)
            subprocess.run([f"mkfs.{fs_type}", *arguments, path], check=True, capture_output=True)
            self._whole[fs_type] = path
        return self._whole[fs_type]

    def image(self, fs_type, seed):
        """Makes the image of this seed and gives its path. It takes the place of the one before it."""
        _, _, offset, length = KINDS[fs_type]
        path = self.folder / f"damaged.{fs_type}"
        subprocess.run(["cp", "--sparse=always", self.whole(fs_type), path], check=True)
        with open(path, "r+b") as image:
            image.seek(offset)
            block = image.read(length)
            image.seek(offset)
            image.write(damage(fs_type, block, seed))
        return path
