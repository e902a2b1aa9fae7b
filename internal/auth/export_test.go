package auth

// What tests see of the package's inside.

const MaxCached = maxCached

var Checksum = checksum
