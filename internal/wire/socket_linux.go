//go:build !386 && !s390x

package wire

import (
	"encoding/binary"
	"runtime"
	"syscall"
	"unsafe"
)

// The calls in this file are raw: Go's scheduler does not hear of them. It need
// not, because they never wait, and hearing would cost: the first system call of
// a process that was idle wakes the thread that looks after long ones, which then
// takes naps of 20 us until all is idle again. At 1,000 requests a second that
// was half of all system calls.

// tcpINQ is TCP_INQ, Linux 4.18: recvmsg tells how many bytes are left, at
// least one if a FIN is next.
const tcpINQ = 36

// hint learns from each read whether there is more. Readiness is told on edges:
// without the hint a FIN that arrived together with the data before it would go
// unnoticed, or every turn would have to end with a read that finds nothing.
type hint struct {
	on  bool // the kernel gives it
	oob [inqSpace]byte
}

const inqSpace = 24 // syscall.CmsgSpace(4)

func (h *hint) init(fd int) {
	h.on = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpINQ, 1) == nil
}

// read reads once, from a socket that does not block, and reports whether there
// may be more.
func (h *hint) read(fd int, p []byte) (n int, more bool, err error) {
	part := syscall.Iovec{Base: unsafe.SliceData(p)}
	part.SetLen(len(p))
	msg := syscall.Msghdr{Iov: &part, Iovlen: 1}
	if h.on {
		msg.Control = &h.oob[0]
		msg.SetControllen(len(h.oob))
	}
	got, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), 0)
	runtime.KeepAlive(h)
	if errno != 0 {
		return 0, true, errno
	}
	return int(got), h.more(int(msg.Controllen)), nil
}

// more reads what the kernel said in n bytes of oob.
func (h *hint) more(n int) bool {
	if n < syscall.SizeofCmsghdr+4 {
		return true
	}
	head := (*syscall.Cmsghdr)(unsafe.Pointer(&h.oob[0]))
	if head.Level != syscall.IPPROTO_TCP || head.Type != tcpINQ {
		return true
	}
	return binary.NativeEndian.Uint32(h.oob[syscall.SizeofCmsghdr:]) > 0
}

// writeOnce writes to a socket that does not block.
func writeOnce(fd int, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
