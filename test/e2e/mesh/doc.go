// Package mesh tells stories of users whose mesh is a real one: a Kubernetes API
// server, istiod, and our controller and waypoints as pods, see package lab. Each
// looks at what the objects' status says and at what happens to traffic.
package mesh
