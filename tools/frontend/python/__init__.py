"""
Jobs from Python: functions on tensors that are traced, compiled and run.

    @penstock.job
    def classify(x: Annotated[penstock.Tensor, (64, 784), "f32"]):
        w = penstock.variable("w", (784, 10), init="xavier_uniform", seed=1)
        return penstock.ops.softmax(x @ w)
"""
