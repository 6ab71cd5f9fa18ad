//go:build !linux

package main

import "syscall"

// apart keeps a terminal's Ctrl-C from a process, which is ended in order when
// all else has.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// pinned is for Linux.
func pinned() {}
