// Package images holds tests of the images that scripts/images builds: that what they promise is in them and runs, as whom,
// and without network, writable files or a known user. It has no code of its own.
package images
