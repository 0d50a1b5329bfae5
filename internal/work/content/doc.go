// Package content carries out MAKE_SWARM_USER_CONTENT: the host fetches files and unpacks them into volumes of its engine. All is fetched and
// unpacked beside the volumes first, so that one is filled with everything or not at all.
package content
