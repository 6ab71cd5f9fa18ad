package wire

import (
	"encoding/binary"
	"syscall"
	"unsafe"
)

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

// read reads once and reports whether there may be more.
func (h *hint) read(fd int, p []byte) (n int, more bool, err error) {
	if !h.on {
		n, err = syscall.Read(fd, p)
		return n, true, err
	}
	n, oobn, _, _, err := syscall.Recvmsg(fd, p, h.oob[:], 0)
	if err != nil || oobn < syscall.SizeofCmsghdr+4 {
		return n, true, err
	}
	head := (*syscall.Cmsghdr)(unsafe.Pointer(&h.oob[0]))
	if head.Level != syscall.IPPROTO_TCP || head.Type != tcpINQ {
		return n, true, nil
	}
	left := binary.NativeEndian.Uint32(h.oob[syscall.SizeofCmsghdr:])
	return n, left > 0, nil
}
