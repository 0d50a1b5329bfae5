// Package image carries out the task PULL_IMAGE: it has the host's engine fetch an image and gives it the name that the task promises.
package image
