package jobrequest

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/swarmd/swarmd/consensus/task"
)

// TaskType is that of jobs' tasks.
const TaskType = task.RunJob

// taskForm is how the tasks of jobs are called. Names of jobs have no dots.
var taskForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}\.[0-9a-f]{8}$`)

// TaskName is the name of the task with a job's body: with the same body it is the same task.
func TaskName(job string, body []byte) string {
	sum := sha256.Sum256(body)
	return job + "." + hex.EncodeToString(sum[:4])
}

// JobOf is the job that a task is of; empty: it is no job's. The type of one that was deleted is empty, and its name decides.
func JobOf(taskName, taskType string) string {
	if taskType != TaskType && taskType != "" || !taskForm.MatchString(taskName) {
		return ""
	}
	job, _, _ := strings.Cut(taskName, ".")
	return job
}
