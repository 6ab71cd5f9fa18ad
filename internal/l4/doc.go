// Package l4 carries byte streams: declared TCP, TLS by its server name, and
// whatever turned out to be no HTTP.
package l4
