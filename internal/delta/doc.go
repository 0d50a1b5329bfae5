// Package delta sends the views of a contract to those who watch it as differences from view to view.
//
// A round changes one number in each session and plans for the participants of the round before, so the difference of two
// successive views has a few hundred bytes, however many peers take part. A [Feed] makes it once for all watchers, with a
// checksum of the view that must come out; a [Decoder] applies it, or refuses it when its own view is not the one that the
// difference was made from.
package delta
