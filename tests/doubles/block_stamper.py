"""Writes its name into each block of a volume: block_stamper.py FILE TURN NODE WRITERS.

First it writes every block once and flushes, and prints "claimed". Then WRITERS processes write random blocks again and
again, until the volume refuses one. It ends when all of them have ended.
"""
import os
import random
import struct
import sys
import time

BLOCK = 4096
STAMP = struct.Struct("<8sQQ32s")  # MARK, turn, number of the write, node
MARK = b"witness!"
PAUSE = 0.002  # seconds between two writes, so that the test beside gets processor time


def stamp(turn, number, node):
    return STAMP.pack(MARK, turn, number, node).ljust(BLOCK, b".")


def write_until_refused(file, blocks, turn, node, first):
    number = first
    while True:
        number += 1
        try:
            os.pwrite(file, stamp(turn, number, node), random.randrange(blocks) * BLOCK)
        except OSError:
            return
        time.sleep(PAUSE)


def main():
    path, turn, node, writers = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode(), int(sys.argv[4])
    file = os.open(path, os.O_RDWR)
    blocks = os.fstat(file).st_size // BLOCK
    try:
        for block in range(blocks):
            os.pwrite(file, stamp(turn, block, node), block * BLOCK)
        os.fsync(file)
    except OSError as error:
        print(f"refused: {error}", flush=True)
        return
    print("claimed", flush=True)
    children = []
    for writer in range(writers):
        child = os.fork()
        if child == 0:
            random.seed()
            write_until_refused(file, blocks, turn, node, (writer + 1) << 32)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
