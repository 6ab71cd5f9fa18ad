package lab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// outboundPort is where a captured pod's own connections arrive, as ztunnel has it.
const outboundPort = 15001

// captureRules redirect what a pod's programs open. The node proxy's own connections
// are opened outside of the pod.
const captureRules = `table ip capture {
	chain output {
		type nat hook output priority -100;
		ip daddr != 127.0.0.0/8 meta l4proto tcp redirect to :%d
	}
}`

// CaptureOutbound has the connections that the programs of a pod open, which know of
// no mesh, go where istiod says. The pod stays captured until it ends.
func (s *Story) CaptureOutbound(p *corev1.Pod) {
	s.Helper()
	own := *s
	own.NS = p.Namespace
	client := own.NewClient(p.Spec.ServiceAccountName)
	netns := filepath.Join(s.dir, "node/pods", p.Namespace+"_"+p.Name, "netns")
	var listener net.Listener
	var err error
	if failed := within(netns, func() { listener, err = net.Listen("tcp4", fmt.Sprintf(":%d", outboundPort)) }); failed != nil || err != nil {
		s.Fatalf("pod %s: %v", p.Name, errors.Join(failed, err))
	}
	s.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				s.Errorf("what pod %s opens: %v", p.Name, err)
				return
			}
			go client.carry(conn.(*net.TCPConn))
		}
	}()
	redirect := exec.CommandContext(s.Context(), "nsenter", "--net="+netns, "nft", "-f", "-")
	redirect.Stdin = strings.NewReader(fmt.Sprintf(captureRules, outboundPort))
	if out, err := redirect.CombinedOutput(); err != nil {
		s.Fatalf("pod %s: %v: %s", p.Name, err, out)
	}
}

// carry connects a connection to where it was opened to. One that cannot be is reset,
// as by a ztunnel.
func (c *Client) carry(from *net.TCPConn) {
	defer from.Close()
	target, err := originalTarget(from)
	var to net.Conn
	if err == nil {
		to, err = c.Dial(c.story.Context(), target)
	}
	if err != nil {
		c.story.Logf("%s opened a connection to %s: %v", c.node.ID, target, err)
		from.SetLinger(0) //nolint:errcheck // it may have gone
		return
	}
	defer to.Close()
	var up sync.WaitGroup
	up.Go(func() {
		io.Copy(to, from)                                 //nolint:errcheck // each side sees how the other ends
		to.(interface{ CloseWrite() error }).CloseWrite() //nolint:errcheck // it may have gone
	})
	io.Copy(from, to) //nolint:errcheck // as above
	from.CloseWrite() //nolint:errcheck // it may have gone
	up.Wait()
}

// originalTarget is where a redirected connection was opened to.
func originalTarget(conn *net.TCPConn) (target string, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return "", err
	}
	controlled := raw.Control(func(fd uintptr) {
		// A sockaddr_in in the first bytes of a larger structure that the package
		// has a call for: family, port, address.
		var address *unix.IPv6Mreq
		if address, err = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST); err == nil {
			b := address.Multiaddr
			target = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3])).String()
		}
	})
	return target, errors.Join(controlled, err)
}
