// Package controller is the wiring of the controller: what runs, on which replica,
// and who is told of what.
//
// Every replica follows the API server (feed), translates for each Gateway and
// serves the waypoints their configuration (discovery), so that losing one costs
// them nothing. The leader alone writes: it deploys waypoints and says how they
// are doing (gateway), and what became of routes, policies and services (status).
// What waypoints refuse reaches it from the other replicas (refusal).
package controller
