module github.com/waypoint-mesh/waypoint

go 1.27.3

require (
	go.uber.org/goleak v1.3.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
