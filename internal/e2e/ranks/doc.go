// Package ranks holds tests of peers that train as several processes: what starts ranks elsewhere, torchrun and Ray Train, beside real
// daemons that were given --attach, and SLs that have hosts run their ranks, as processes and in containers. The commands are those of
// docs/operations/ranks.md.
package ranks
