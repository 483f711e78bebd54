# Huge pages: nothing that has them can be captured.
#: huge pages | mapping (MAP_HUGETLB) | refused: : /anon_hugepage of huge pages
#: huge pages | memfd (MFD_HUGETLB), open | refused: /memfd:open of huge pages
#: huge pages | memfd (MFD_HUGETLB), mapped | refused: : /memfd:mapped of huge pages
import mmap
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
size = 2 << 20
# Reserved without a page of them: such a mapping needs none.
a = libc.mmap(None, size, 3, 0x40000 | 0x4022, -1, 0)
fd = call("memfd_create", b"open", 4)
mapped = call("memfd_create", b"mapped", 4)
b = libc.mmap(None, size, 3, 0x4001, mapped, 0)
os.close(mapped)
if 2**64 - 1 in (a, b): print("no huge pages: %x %x" % (a, b), flush=True)
ready()
answer([True])
