"""The device's worker finishes a launch and does not report it.

Models Z113 (vllm#36451: the engine waits for ever, and health knows only dead processes), by a report that is lost.
"""

MODULE = "runtime.device.launcher"


def plant(launcher, after=400):
    finish = launcher.Launcher._finish

    def _finish(self, job):
        if job.ticket.seq < after:
            finish(self, job)

    launcher.Launcher._finish = _finish
