package container

import "strings"

// gpuProblem names what is known to break GPUs, by what the engine or nvidia-smi said.
func gpuProblem(said string) error {
	text := strings.ToLower(said)
	switch {
	case strings.Contains(text, "driver/library version mismatch"):
		return problem("reboot, or unload and load the driver's modules (rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia; modprobe nvidia)",
			"the GPU driver in the kernel and its libraries have different versions, as after an upgrade: %s", said)
	case strings.Contains(text, "failed to initialize nvml: unknown error"):
		return problem("use the systemd cgroup driver in the engine (native.cgroupdriver=systemd) or CDI, and start again",
			"the GPUs were taken from the container: a systemd daemon-reload does that where the engine uses the cgroupfs driver: %s", said)
	case strings.Contains(text, "nvml error: driver not loaded"), strings.Contains(text, "couldn't communicate with the nvidia driver"),
		strings.Contains(text, "driver rpc error"):
		return problem("load it (modprobe nvidia) and see that nvidia-smi works on the host", "the GPU driver is not loaded: %s", said)
	case strings.Contains(text, "unknown device"), strings.Contains(text, "device error"), strings.Contains(text, "invalid device"):
		return problem("correct --gpu: nvidia-smi -L on the host lists them", "a GPU that was asked for does not exist: %s", said)
	}
	return problem("see that nvidia-smi works on the host, or leave --gpu out", "GPUs can not be used: %s", said)
}
