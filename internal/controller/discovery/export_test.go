package discovery

// Logged is how long a gateway's log is.
func (s *Server) Logged(g Gateway) int {
	known := s.set(g)
	known.mu.Lock()
	defer known.mu.Unlock()
	return max(len(known.log), len(known.now))
}
