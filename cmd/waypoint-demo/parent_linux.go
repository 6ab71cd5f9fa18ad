package main

import (
	"runtime"
	"syscall"
)

// apart keeps a terminal's Ctrl-C from a process, which is ended in order when
// all else has, and has the kernel kill it should we end without doing that.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// pinned keeps the calling goroutine's thread alive as long as the goroutine.
func pinned() { runtime.LockOSThread() }
