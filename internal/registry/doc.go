// Package registry lists the components that run on this host as processes, one JSON file for each, so that
// `swarmctl stop` finds them as it finds containers by their labels.
//
// The files are hints, never orders: a process is signalled only if the kernel says that it is the one that was registered (by
// process ID and start time), that it belongs to the file's owner, and that it is a swarmd which runs that component. It is
// signalled through a descriptor of that very process, so a number that is given to another meanwhile hits nobody.
package registry
