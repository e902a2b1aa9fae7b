package auth

// What tests see of the package's inside.

const (
	MaxCached   = maxCached
	LanePause   = lanePause
	LaneKeys    = laneKeys
	LaneWaiting = laneWaiting
)

var Checksum = checksum
