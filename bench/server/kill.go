package server

// Kill ends the server at once, as kill -9 does. It is to be stopped all the same.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
