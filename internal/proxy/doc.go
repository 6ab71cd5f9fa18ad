// Package proxy is the spine of the data path: it accepts tunnels, finds the
// destination of each stream, learns what is inside, and hands it to the
// forwarder for that.
package proxy
