"""Writes past the page cache, for which the kernel wants whole blocks in memory that is aligned."""
import mmap
import os

BLOCK = 4096


def write_block(file, offset, letter):
    """Fills the block at `offset` bytes with a letter; a negative offset counts from the end. OSError: it is refused."""
    buffer = mmap.mmap(-1, BLOCK)
    buffer.write(letter * BLOCK)
    descriptor = os.open(file, os.O_WRONLY | os.O_DIRECT)
    try:
        os.pwritev(descriptor, [buffer], offset if offset >= 0 else os.fstat(descriptor).st_size + offset)
    finally:
        os.close(descriptor)
