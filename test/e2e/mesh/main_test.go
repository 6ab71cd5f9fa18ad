package mesh

import (
	"os"
	"testing"

	"github.com/waypoint-mesh/waypoint/test/e2e/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
