"""The frequency of the processor's time stamp counter.

The microvm machine has no clock by which a guest could calibrate the counter, and the emulated counter is the host's,
so the frequency is given to the guest. (/proc/cpuinfo shows the present speed of a core, which is not this
frequency.)
"""
import ctypes
import functools
import mmap
import time

# rdtsc; shl rdx, 32; or rax, rdx; ret
CODE = bytes.fromhex("0f3148c1e2204809d0c3")


@functools.cache
def kilohertz():
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as page:
        page.write(CODE)
        pointer = ctypes.c_char.from_buffer(page)
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(pointer))
        began, first = time.monotonic_ns(), read()
        time.sleep(0.05)
        ended, last = time.monotonic_ns(), read()
        del pointer
    return (last - first) * 1_000_000 // (ended - began)
