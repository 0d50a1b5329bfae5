// Package jobfile reads the files of jobs: programs that run as several processes or containers at once, on one host or many. It is pure: it is
// given the bytes of a file, its name, and the folder of the job's source.
//
// Reading is strict: what is unknown, stands twice or has another form than is documented is an error that names the file's line. What is read
// has one form in which it is written again, the body of the job's task, and reads back as the same job.
package jobfile
