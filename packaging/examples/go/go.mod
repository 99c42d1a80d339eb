module example.org/buffers

go 1.19
