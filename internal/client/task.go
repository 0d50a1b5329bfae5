package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"strconv"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
)

// Tasks is an operator's calls about tasks, taskrunners and assignments. Those that change nothing others may make too.
type Tasks struct {
	By Operator // who asks
}

// CreateTask makes a task without a definition. Repeating it does no harm until something is written. The request holds no order, as those of
// the other methods.
func (c Tasks) CreateTask(ctx context.Context, req *swarmv1.CreateTaskRequest) (*swarmv1.Task, error) {
	res, err := ordered(ctx, c.By, callOptions{}, swarmv1connect.TaskServiceClient.CreateTask, proto.CloneOf(req))
	return res.GetTask(), err
}

// EditTask writes lines of a task's definition, from a line on that counts from 1. Repeating it does no harm.
func (c Tasks) EditTask(ctx context.Context, name string, line uint32, text string) (*swarmv1.Task, error) {
	res, err := ordered(ctx, c.By, callOptions{}, swarmv1connect.TaskServiceClient.EditTask, &swarmv1.EditTaskRequest{Name: name, Line: line, Text: text})
	return res.GetTask(), err
}

// FinaliseTask fixes a task: that of a digest, or with an empty one the task as it is. Repeating it does no harm.
func (c Tasks) FinaliseTask(ctx context.Context, name, digest string) (*swarmv1.Task, error) {
	res, err := ordered(ctx, c.By, callOptions{}, swarmv1connect.TaskServiceClient.FinaliseTask, &swarmv1.FinaliseTaskRequest{Name: name, Digest: digest})
	return res.GetTask(), err
}

// DeleteTask removes a task; with force also one that is finalised.
func (c Tasks) DeleteTask(ctx context.Context, name string, force bool) error {
	_, err := ordered(ctx, c.By, callOptions{}, swarmv1connect.TaskServiceClient.DeleteTask, &swarmv1.DeleteTaskRequest{Name: name, Force: force})
	return err
}

// CreateTaskrunner makes a taskrunner; one that is there stays as it is.
func (c Tasks) CreateTaskrunner(ctx context.Context, name string) (*swarmv1.Taskrunner, error) {
	res, err := ordered(ctx, c.By, callOptions{}, swarmv1connect.TaskServiceClient.CreateTaskrunner, &swarmv1.CreateTaskrunnerRequest{Name: name})
	return res.GetTaskrunner(), err
}

// DeleteTaskrunner removes a taskrunner that is not busy.
func (c Tasks) DeleteTaskrunner(ctx context.Context, name string) error {
	_, err := ordered(ctx, c.By, callOptions{}, swarmv1connect.TaskServiceClient.DeleteTaskrunner, &swarmv1.DeleteTaskrunnerRequest{Name: name})
	return err
}

// ResetTaskrunner makes a taskrunner idle; what it carries out is cancelled.
func (c Tasks) ResetTaskrunner(ctx context.Context, name, reason string) (*swarmv1.Taskrunner, error) {
	res, err := ordered(ctx, c.By, callOptions{}, swarmv1connect.TaskServiceClient.ResetTaskrunner, &swarmv1.ResetTaskrunnerRequest{Name: name, Reason: reason})
	return res.GetTaskrunner(), err
}

// AssignTask hands a finalised task to hosts and returns the assignment. One that is not given an ID gets one at random, so that repeating the
// call with the ID that was returned does no harm.
func (c Tasks) AssignTask(ctx context.Context, req *swarmv1.AssignTaskRequest) (*swarmv1.Assignment, error) {
	req = proto.CloneOf(req)
	if req.GetId() == "" {
		req.Id = assignmentID()
	}
	res, err := ordered(ctx, c.By, callOptions{}, swarmv1connect.TaskServiceClient.AssignTask, req)
	return res.GetAssignment(), err
}

// assignmentID is one that nobody has used.
func assignmentID() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails, by its contract
	return strconv.FormatUint(max(binary.BigEndian.Uint64(raw[:]), 1), 10)
}

// ApproveTask tells a host that waits that it may carry out an assignment. The request holds no order.
func (c Tasks) ApproveTask(ctx context.Context, req *swarmv1.ApproveTaskRequest) (*swarmv1.Assignment, error) {
	res, err := ordered(ctx, c.By, callOptions{}, swarmv1connect.TaskServiceClient.ApproveTask, proto.CloneOf(req))
	return res.GetAssignment(), err
}

// RefuseTask tells a host that waits that it is not to carry out an assignment. The request holds no order.
func (c Tasks) RefuseTask(ctx context.Context, req *swarmv1.RefuseTaskRequest) (*swarmv1.Assignment, error) {
	res, err := ordered(ctx, c.By, callOptions{}, swarmv1connect.TaskServiceClient.RefuseTask, proto.CloneOf(req))
	return res.GetAssignment(), err
}

// CancelAssignment ends an assignment that has no verdict, and returns it.
func (c Tasks) CancelAssignment(ctx context.Context, id, reason string) (*swarmv1.Assignment, error) {
	res, err := ordered(ctx, c.By, callOptions{}, swarmv1connect.TaskServiceClient.CancelAssignment, &swarmv1.CancelAssignmentRequest{Id: id, Reason: reason})
	return res.GetAssignment(), err
}

// GetTask returns a task with its definition.
func (c Tasks) GetTask(ctx context.Context, name string) (*swarmv1.GetTaskResponse, error) {
	return call(ctx, c.By.Client, callOptions{}, swarmv1connect.TaskServiceClient.GetTask, &swarmv1.GetTaskRequest{Name: name})
}

// ListTasks returns all tasks without their definitions: the root task, then the others by name.
func (c Tasks) ListTasks(ctx context.Context) ([]*swarmv1.Task, error) {
	res, err := call(ctx, c.By.Client, callOptions{}, swarmv1connect.TaskServiceClient.ListTasks, &swarmv1.ListTasksRequest{})
	return res.GetTasks(), err
}

// GetTaskrunner returns a taskrunner with its last assignment and the members of that.
func (c Tasks) GetTaskrunner(ctx context.Context, name string) (*swarmv1.GetTaskrunnerResponse, error) {
	return call(ctx, c.By.Client, callOptions{}, swarmv1connect.TaskServiceClient.GetTaskrunner, &swarmv1.GetTaskrunnerRequest{Name: name})
}

// ListTaskrunners returns all taskrunners: the default one, then the others by name.
func (c Tasks) ListTaskrunners(ctx context.Context) ([]*swarmv1.Taskrunner, error) {
	res, err := call(ctx, c.By.Client, callOptions{}, swarmv1connect.TaskServiceClient.ListTaskrunners, &swarmv1.ListTaskrunnersRequest{})
	return res.GetTaskrunners(), err
}

// GetAssignment returns an assignment with its members.
func (c Tasks) GetAssignment(ctx context.Context, id string) (*swarmv1.Assignment, error) {
	res, err := call(ctx, c.By.Client, callOptions{}, swarmv1connect.TaskServiceClient.GetAssignment, &swarmv1.GetAssignmentRequest{Id: id})
	return res.GetAssignment(), err
}

// ListAssignments returns the assignments that are kept, as far as an answer has room, without hosts and members: those first that were made first.
func (c Tasks) ListAssignments(ctx context.Context) (*swarmv1.ListAssignmentsResponse, error) {
	return call(ctx, c.By.Client, callOptions{}, swarmv1connect.TaskServiceClient.ListAssignments, &swarmv1.ListAssignmentsRequest{})
}
