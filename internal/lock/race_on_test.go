//go:build race

package lock

// raceDetector makes the explorers some four times as slow. With it they play a part of each story, the same every time.
const raceDetector = true
