//go:build race

package stories

import "time"

// short is longer than what is well takes, on a busy machine and under the race
// detector.
const short = 3 * time.Second
