//go:build race

package harness

// raceDetector says whether this test binary was built with -race.
const raceDetector = true
