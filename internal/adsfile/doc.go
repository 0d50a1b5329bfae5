// Package adsfile reads files of Oracle's Data Science service as jobs: train.yaml of ads opctl (kind: distributed), its jobs (kind: job), and what
// the service's API has of a job, also of one with several nodes. It is pure: it is given the bytes of a file and its name.
//
// A file is bounded as those of jobs are. What has no equal here is either refused, where the job would do something else without it, or said, with
// its line: each field that is ignored, and each that is another thing here.
package adsfile
