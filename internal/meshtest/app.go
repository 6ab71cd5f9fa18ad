package meshtest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"time"
)

// App is an application that speaks raw TCP.
type App struct {
	*Listener
	Name string

	mu    sync.Mutex
	conns int
}

// Conns is how many connections it has had.
func (a *App) Conns() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conns
}

// TCP starts an application that serves each connection with serve, and closes
// it then.
func (m *Mesh) TCP(name, addr string, serve func(*net.TCPConn)) *App {
	m.t.Helper()
	app := &App{Listener: m.bind(addr), Name: name}
	app.serve(m, func(conn *net.TCPConn, _ int) { serve(conn) })
	return app
}

// serve numbers the connections from 1.
func (a *App) serve(m *Mesh, serve func(conn *net.TCPConn, number int)) {
	a.Listener.serve(m, func(conn net.Conn) {
		a.mu.Lock()
		a.conns++
		number := a.conns
		a.mu.Unlock()
		serve(conn.(*net.TCPConn), number)
	})
}

// Echo sends back what comes, and ends when the other side has.
func Echo(conn *net.TCPConn) {
	if _, err := io.Copy(conn, conn); err == nil {
		conn.CloseWrite() //nolint:errcheck // the peer may have gone
	}
}

// Greet is a protocol in which the server speaks first: it greets, and answers
// each line with the name of the application and the line.
func Greet(greeting string) func(*net.TCPConn) {
	return func(conn *net.TCPConn) {
		if _, err := io.WriteString(conn, greeting); err != nil {
			return
		}
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if _, err := fmt.Fprintf(conn, "you said %s\n", lines.Text()); err != nil {
				return
			}
		}
	}
}

// Farewell ends its own direction at once after greeting, and then sends what
// it has read to got: the half-close that net/http cannot do.
func Farewell(greeting string, got chan<- []byte) func(*net.TCPConn) {
	return func(conn *net.TCPConn) {
		if _, err := io.WriteString(conn, greeting); err != nil {
			return
		}
		if err := conn.CloseWrite(); err != nil {
			return
		}
		read, _ := io.ReadAll(conn) // what came is the answer, however it ended
		got <- read
	}
}

// TLS starts an application that terminates TLS for the given server names. It
// answers each connection with a line "NAME SNI" and then echoes.
func (m *Mesh) TLS(name, addr string, serverNames ...string) *App {
	m.t.Helper()
	cert, err := selfSigned(serverNames)
	if err != nil {
		m.t.Fatalf("meshtest: %v", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	return m.TCP(name, addr, func(raw *net.TCPConn) {
		conn := tls.Server(raw, config)
		if err := conn.Handshake(); err != nil {
			return
		}
		if _, err := fmt.Fprintf(conn, "%s %s\n", name, conn.ConnectionState().ServerName); err != nil {
			return
		}
		if _, err := io.Copy(conn, conn); err == nil {
			conn.CloseWrite() //nolint:errcheck // the peer may have gone
		}
	})
}

func selfSigned(names []string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     names,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
