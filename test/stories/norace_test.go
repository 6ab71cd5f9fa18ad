//go:build !race

package stories

import "time"

// short is longer than what is well takes, on a busy machine.
const short = time.Second
