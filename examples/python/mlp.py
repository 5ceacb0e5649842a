"""A multi-layer perceptron on Fashion-MNIST with the native API: train, save, load, evaluate."""
import sys
import tempfile
import time

import numpy as np
import windrow as wr


def make_net():
    return wr.nn.Sequential(wr.nn.Dense(784, 128), wr.nn.Relu(), wr.nn.Dense(128, 10))


def main(epochs=3):
    data = wr.data.load_images()
    net, adam = make_net(), wr.optim.Adam(lr=1e-3)

    @wr.compile
    def train(x, y):
        loss = wr.loss.cross_entropy(net(x), y)
        adam.minimize(loss, net.parameters())
        return loss

    start = time.perf_counter()
    losses = wr.fit(train, wr.data.Loader(data.train, batch=64, example=[784]), epochs=epochs)
    took = time.perf_counter() - start
    print(f"{data.train.name}: loss by epoch {', '.join(f'{loss:.3f}' for loss in losses)}; {took:.1f} s")

    with tempfile.TemporaryDirectory() as folder:
        wr.save(f"{folder}/mlp.safetensors", model=net)
        again = make_net()
        wr.load(f"{folder}/mlp.safetensors", model=again)

    classify = wr.compile(lambda x: wr.argmax(again(x), 1))
    right = total = 0
    for x, y in wr.data.Loader(data.test, batch=500, example=[784]):
        right += int((np.asarray(classify(x)) == np.asarray(y)).sum())
        total += len(y)
    print(f"{100 * right / total:.1f} % of {total} test images")
    return right / total


if __name__ == "__main__":
    sys.exit(0 if main(*map(int, sys.argv[1:])) > 0.8 else 1)
