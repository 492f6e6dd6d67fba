"""Runs a command to which the kernel refuses io_uring, the way container runtimes do it:

    python3 without_io_uring.py COMMAND [ARGUMENT...]
"""

import ctypes
import errno
import os
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
IO_URING_SETUP = 425


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def instruction(code, jump_true, jump_false, value):
    return struct.pack("HBBI", code, jump_true, jump_false, value)


def main():
    code = b"".join([
        instruction(0x20, 0, 0, 0),  # load the number of the system call
        instruction(0x15, 0, 1, IO_URING_SETUP),  # is it this one?
        instruction(0x06, 0, 0, 0x00050000 | errno.EPERM),  # refuse
        instruction(0x06, 0, 0, 0x7FFF0000),  # allow
    ])
    buffer = ctypes.create_string_buffer(code, len(code))
    program = Program(len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                 (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)):
        if libc.prctl(*call) != 0:
            sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


main()
